"""Faulty backends that handle the failures of their engine wrongly, late in a stream."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

from faulty_backends.base import CountedStream, FaultyBackend, violates
from wlk_core import Emission
from wlk_core.errors import BackendError, StreamBroken

if TYPE_CHECKING:
    from collections.abc import Callable

__all__: list[str] = []


class _FailingStream(CountedStream):
    """A stream whose calls that decode pass through `guarded`."""

    last = Emission((), 0.0, 0.0)
    calls = 0
    failures = 0

    def guarded(self, call: Callable[[], Emission], name: str) -> Emission:
        """Make the call."""
        self.calls += 1
        try:
            self.last = call()
        except BackendError as error:
            self.failures += 1
            return self.failed(error, call, name)
        return self.last

    def failed(self, error: BackendError, call: Callable[[], Emission], name: str) -> Emission:
        """Handle the failure of *call*."""
        raise error

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Guard it."""
        return self.guarded(lambda: super(_FailingStream, self).process_iter(is_last), "process")

    def start_silence(self) -> Emission:
        """Guard it."""
        return self.guarded(super().start_silence, "start_silence")

    def new_speaker(self, change: Any) -> Emission:
        """Guard it."""
        return self.guarded(lambda: super(_FailingStream, self).new_speaker(change), "new_speaker")

    def finish(self) -> Emission:
        """Guard it."""
        return self.guarded(super().finish, "finish")


@violates("ERR-01", detector="sessions")
class HidesLaterErrors(_FailingStream):
    """Turns an engine error into silence after the tenth call of a stream."""

    def failed(self, error: BackendError, call: Callable[[], Emission], name: str) -> Emission:
        """Return nothing."""
        if self.calls <= 10 or isinstance(error, StreamBroken):
            raise error
        return self.last.replace(committed=())


@violates("ERR-01", detector="sessions")
class RaisesRawErrorAtSilence(_FailingStream):
    """Raises the engine's own error at a silence."""

    def failed(self, error: BackendError, call: Callable[[], Emission], name: str) -> Emission:
        """Raise the cause."""
        if name == "start_silence" and error.__cause__ is not None:
            raise error.__cause__
        raise error


@violates("ERR-02", detector="sessions")
class LosesWordAtSecondFailure(_FailingStream):
    """Loses the next word after the second failure of its engine."""

    is_lost = False

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        if self.failures < 2 or self.is_lost or not emission.committed:
            return emission
        self.is_lost = True
        return emission.replace(committed=emission.committed[1:])


@violates("ERR-02", detector="sessions")
class RepeatsWordAfterFailedFlush(_FailingStream):
    """Commits the last word of a flush twice if the flush had to be repeated."""

    was_failed = False

    def failed(self, error: BackendError, call: Callable[[], Emission], name: str) -> Emission:
        """Note it."""
        self.was_failed = name in ("start_silence", "finish")
        raise error

    def changed(self, emission: Emission, call: str) -> Emission:
        """Repeat the word."""
        if not self.was_failed or not emission.committed:
            return emission
        self.was_failed = False
        last = emission.committed[-1]
        again = type(last)(last.end, last.end, f" {last.text.strip()}", last.probability,
                           last.speaker, last.detected_language)  # fmt: skip
        return emission.replace(committed=(*emission.committed, again))


@violates("ERR-03", detector="sessions")
class BreaksAtSecondFailure(_FailingStream):
    """Breaks the stream at the second failure in a row."""

    in_a_row = 0

    def failed(self, error: BackendError, call: Callable[[], Emission], name: str) -> Emission:
        """Raise StreamBroken too early."""
        self.in_a_row += 1
        if self.in_a_row == 2:
            raise StreamBroken("the engine failed twice") from error.__cause__
        raise error

    def changed(self, emission: Emission, call: str) -> Emission:
        """Begin anew."""
        self.in_a_row = 0
        return emission


@violates("ERR-04", detector="sessions")
class BrokenNeighbourLosesWord(_FailingStream):
    """Loses a word of the other streams when one is broken."""

    is_due = False

    def __init__(self, stream: Any, backend: FaultyBackend, language: str | None = None) -> None:
        super().__init__(stream, backend, language)
        backend.marks.setdefault("streams", []).append(self)

    def failed(self, error: BackendError, call: Callable[[], Emission], name: str) -> Emission:
        """Clear the caches of the others."""
        if isinstance(error, StreamBroken):
            for stream in self.backend.marks["streams"]:
                stream.is_due = stream is not self
        raise error

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        if not self.is_due or not emission.committed:
            return emission
        self.is_due = False
        return emission.replace(committed=emission.committed[1:])


class _LockedStream(CountedStream):
    """A stream with a lock that its flushes hold."""

    def __init__(self, stream: Any, backend: FaultyBackend, language: str | None = None) -> None:
        super().__init__(stream, backend, language)
        self.lock = Lock()

    def start_silence(self) -> Emission:
        """Hold the lock."""
        with self.lock:
            return super().start_silence()

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Hold the lock in a flush."""
        if not is_last:
            return super().process_iter()
        with self.lock:
            return super().process_iter(is_last)


@violates("IN-04", detector="sessions")
class InsertWaitsForFlush(_LockedStream):
    """Makes an insert wait for the end of a flush, and not of a step."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Wait."""
        with self.lock:
            self.stream.insert_audio_chunk(audio, end_time)


@violates("HYP-01", detector="sessions")
class ReadWaitsForFlush(_LockedStream):
    """Makes get_buffer wait for the end of a flush, and not of a step."""

    def get_buffer(self) -> Any:
        """Wait."""
        with self.lock:
            return self.stream.get_buffer()
