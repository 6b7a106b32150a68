"""
The errors of wlk-core, as one tree; other distributions add theirs below WLKError.

* WLKError
  x AudioFormatError      audio in the wrong format, or a file without audio
  x ClockError            stream times that contradict the samples
  x OptionError           an option, language, task or policy that is unknown or unsupported
  x ModelNotFoundError    a model that is not local and cannot be fetched
  x BackendUnavailable    a backend that is absent, broken or lacks its framework
  x BackendError          the engine failed; `retryable` if trying again can help
    x StreamBroken        the engine failed too often: this stream is over
  x StreamClosed          a call after `finish()` or `close()`, or a flush that `close()` cut short
  x ConcurrentCallError   two exclusive calls of one stream at the same time
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wlk_core.tokens import ASRToken


class WLKError(Exception):
    """The base of every error that this project raises on purpose."""


class AudioFormatError(WLKError, ValueError):
    """The audio is not one-dimensional finite float32, or a file holds no audio."""


class ClockError(WLKError, ValueError):
    """A time contradicts the sample count by more than the contract tolerates."""


class OptionError(WLKError, ValueError):
    """An option is unknown, unsupported or contradictory; the message names the choices."""


class ModelNotFoundError(WLKError, LookupError):
    """A model is not local and cannot be fetched; the message names the command that gets it."""


class BackendUnavailable(WLKError):  # noqa: N818 -- a state of the installation, not of a call
    """A backend is not installed, is broken, or lacks its framework."""


class BackendError(WLKError):
    """
    The engine failed; the cause is chained and nothing was changed.

    `retryable` is true if the same call may succeed when it is repeated.  `is_exhausted` is true if
    the backend has used up the attempts or the time of the call: repeat it later, not at once.
    `committed` holds the tokens that earlier steps committed and no Emission has delivered yet, so
    that nothing committed is lost; the next Emission, if there is one, delivers them too.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = True,
        is_exhausted: bool = False,
        committed: tuple[ASRToken, ...] = (),
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.is_exhausted = is_exhausted
        self.committed = committed


class StreamBroken(BackendError):  # noqa: N818 -- names the state the stream is in
    """The engine failed, and so did three retries; every later call of the stream raises this."""

    def __init__(self, message: str, *, committed: tuple[ASRToken, ...] = ()) -> None:
        super().__init__(message, retryable=False, committed=committed)


class StreamClosed(WLKError):  # noqa: N818 -- names the state the stream is in
    """
    The stream was finished or closed before this call, or another thread closed it during a flush.

    `committed` holds the tokens that the flush had committed by then.
    """

    def __init__(self, message: str, *, committed: tuple[ASRToken, ...] = ()) -> None:
        super().__init__(message)
        self.committed = committed


class ConcurrentCallError(WLKError):
    """Another exclusive call of the same stream is running; this one changed nothing."""
