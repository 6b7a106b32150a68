"""Stops: signals that end a run, held while committed text is on its way into its file."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

    from wlk_core.processor import OnlineProcessor
    from wlk_core.tokens import Emission

T = TypeVar("T")

__all__ = ["STOPS", "Stopped", "Stops"]

# Sent by Ctrl-C; by `docker stop` and systemd; by a terminal that is closed (not on Windows).
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_PATIENCE_SECONDS = 5.0  # of a hold, because `docker stop` kills 10 s after its signal
_INSISTING_SECONDS = 1.0  # wrappers such as `npm run` send one Ctrl-C twice, within milliseconds

_EXIT_STATUS_BASE = 128  # of shells: a program that signal n ended has the status 128 + n


class Stopped(KeyboardInterrupt):
    """A signal ends this run; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def name(self) -> str:
        """The name of the signal, such as SIGTERM."""
        return signal.Signals(self.number).name

    @property
    def status(self) -> int:
        """The exit status that shells give to a program which this signal ended."""
        return _EXIT_STATUS_BASE + self.number


@attrs.define
class Stops:
    """
    What a signal does to a run.

    A signal raises Stopped at once, except while text is held: from the call of the engine that
    commits it until it is written.  It is raised when that is done, or after five seconds.
    Further signals change nothing, because systemd sends two and a closed terminal may; only
    Ctrl-C, when it is pressed again a second or more after the first stop, ends all at once.
    """

    _number: int | None = None
    _received_at: float = 0.0
    _is_held: bool = False

    def install(self) -> None:
        """Handle the signals that nothing else handles and that this process does not ignore."""
        for name in _SIGNALS:
            number = getattr(signal, name, None)
            usual = (signal.SIG_DFL, signal.default_int_handler)
            if number is not None and signal.getsignal(number) in usual:
                signal.signal(number, self.receive)
        if hasattr(signal, "setitimer"):  # absent on Windows
            signal.signal(signal.SIGALRM, self.give_up)

    def receive(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        if self._number is None:
            self._number, self._received_at = number, time.monotonic()
            if not self._is_held:
                raise Stopped(number)
            _set_alarm(_PATIENCE_SECONDS)
        elif number == signal.SIGINT and self._is_insisting():
            raise Stopped(number)

    def _is_insisting(self) -> bool:
        return time.monotonic() - self._received_at >= _INSISTING_SECONDS

    def give_up(self, _number: int, _frame: FrameType | None) -> None:
        """Raise a signal that has been held for too long, as by a server that does not answer."""
        if self._number is not None and self._is_held:
            raise Stopped(self._number)

    def hold(self) -> None:
        """Let no signal raise from here on: committed text is on its way."""
        self._is_held = True

    def release(self) -> None:
        """Let signals raise again, and raise the one that came; the committed text is written."""
        self._is_held = False
        if self._number is not None:
            _set_alarm(0.0)
            raise Stopped(self._number)

    def reset(self) -> None:
        """Forget the signal that was received, at the beginning of a run."""
        self._number, self._is_held = None, False

    def between(self, pieces: Iterable[T]) -> Iterator[T]:
        """Yield *pieces*; a signal ends the wait for the next."""
        iterator = iter(pieces)
        while True:
            self.release()
            try:
                piece = next(iterator)
            except StopIteration:
                return
            yield piece

    def shielded(self, processor: OnlineProcessor) -> OnlineProcessor:
        """Return *processor* with calls that no signal ends after they have committed text."""
        return cast("OnlineProcessor", _Shielded(processor, self))


def _set_alarm(seconds: float) -> None:
    """Let SIGALRM come once after *seconds*; 0 for never."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


STOPS = Stops()  #: one for each process, because signal handlers are too


@attrs.frozen
class _Shielded:
    """A processor whose emissions are held until the next call: they are written by then."""

    _processor: OnlineProcessor
    _stops: Stops

    def process_iter(self, *arguments: Any, **options: Any) -> Emission:
        """Run the next steps."""
        return self._held(self._processor.process_iter, *arguments, **options)

    def start_silence(self) -> Emission:
        """Begin a pause."""
        return self._held(self._processor.start_silence)

    def finish(self) -> Emission:
        """End the stream."""
        return self._held(self._processor.finish)

    def _held(self, call: Any, *arguments: Any, **options: Any) -> Emission:
        self._stops.release()
        self._stops.hold()
        emission: Emission = call(*arguments, **options)
        return emission

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)
