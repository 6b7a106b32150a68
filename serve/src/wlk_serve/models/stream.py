"""A session of the core with what belongs to it, and how it is opened."""

from __future__ import annotations

from collections import deque
import time
from typing import TYPE_CHECKING, Any, Self

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from wlk_core.audio.pcm import Encoding
    from wlk_serve.scheduler import Attachment

__all__ = ["GateTimes", "ServedStream", "StreamSettings"]


@attrs.frozen(kw_only=True)
class GateTimes:
    """The parameters of a SilenceGate: two probabilities, and three lengths in seconds."""

    threshold: float
    quiet_threshold: float
    pre_roll: float
    hang_over: float
    min_silence: float


@attrs.frozen(kw_only=True)
class StreamSettings:
    """
    How a stream is opened.

    Attributes:
        encoding: of the samples of its audio, one channel.
        rate: samples a second.
        language: a code of the backend; None to detect it.
        prompt: what the model is told before the audio; None for nothing.
        keyterms: names and terms to listen for, separated by commas; None for none.
        gate: None for the gate's own parameters.
        leaves_out_pauses: without it there is no gate and the model gets all audio, because the
            client has a gate of its own.

    """

    encoding: Encoding = "s16le"
    rate: int = 16_000
    language: str | None = None
    prompt: str | None = None
    keyterms: str | None = None
    gate: GateTimes | None = None
    leaves_out_pauses: bool = True


class ServedStream:
    """
    A session that a scheduler steps, with the *parts* that belong to it.

    The first `close` lets *close_later* call `release` in a thread.
    """

    def __init__(
        self,
        session: Any,
        parts: ExitStack,
        close_later: Callable[[Callable[[], object]], object],
    ) -> None:
        self.session = session
        self.commit_times: deque[float] = deque()  #: of commits whose endpoints have not come yet
        self._parts = parts
        self._close_later = close_later
        self._is_closed = False

    def attached(self, attachment: Attachment) -> Self:
        """Return this stream, which *attachment* steps from now on."""
        self.notify = attachment.notify
        self._parts.callback(attachment.detach)  # before the other parts are closed
        return self

    @property
    def backlog_seconds(self) -> float:
        """Seconds of audio that wait to be decoded."""
        return 0.0 if self._is_closed else self.session.backlog_seconds

    def receive(self, audio: bytes) -> None:
        """Append audio."""
        self.session.receive(audio)
        self.notify()

    def commit(self) -> None:
        """End the utterance."""
        self.session.commit()
        self.commit_times.append(time.monotonic())
        self.notify()

    def mark(self, name: str) -> None:
        """Request an event when all audio so far is decoded."""
        self.session.mark(name)
        self.notify()

    def end_audio(self) -> None:
        """Declare that no more audio will come."""
        self.session.end_audio()
        self.notify()

    def close(self) -> None:
        """Drop what was not transcribed; the engine call that runs ends by itself."""
        if not self._is_closed:
            self._is_closed = True
            self._close_later(self.release)

    def release(self) -> None:
        """
        Close every part after the step that runs, each one although another one raises.

        Raises:
            Exception: what a part raised.

        """
        self._is_closed = True
        try:
            self._parts.close()
        finally:
            # Cycles refer to this object, and Python collects them late: it does not count the
            # native memory of the model and of the detector.
            del self.session
            self.__dict__.pop("notify", None)  # not there where the stream was never attached
