"""Faults of rare calls: overlapping, from other threads, after the end, in an odd order."""

from __future__ import annotations

from functools import partial
import threading
from typing import TYPE_CHECKING, Any

import attrs

from faulty_backends.base import CountedStream, FaultyBackend, FaultyStream, violates
from wlk_core import ASRToken, Emission, Transcript
from wlk_core.errors import BackendError, StreamBroken, StreamClosed

if TYPE_CHECKING:
    from collections.abc import Callable

__all__: list[str] = []


@violates("HYP-03")
class KeepsHypothesisAtTurn(CountedStream):
    """Shows the hypothesis from before a turn until the next step."""

    shown = Transcript()

    def new_speaker(self, change: Any) -> Emission:
        """Keep it."""
        shown = self.stream.get_buffer()
        emission = super().new_speaker(change)
        self.shown = shown
        return emission

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        self.shown = Transcript()
        return emission

    def get_buffer(self) -> Transcript:
        """Show it."""
        shown: Transcript = self.stream.get_buffer()
        return shown if shown.tokens else self.shown


@violates("LIFE-01")
class CommitsPrefixAfterLead(CountedStream):
    """Commits a prefix after a leading silence, before any audio."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Commit it."""
        if not self.silences or self.stream.stats.audio_seconds or call == "finish":
            return emission
        return emission.replace(committed=(ASRToken(0.0, 0.0, "you", 1.0),))


@violates("LIFE-04")
class AcceptsSilenceAfterFinish(CountedStream):
    """Ignores a silence after finish instead of refusing it."""

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Ignore it."""
        try:
            super().end_silence(seconds, offset)
        except StreamClosed:
            return


@violates("LIFE-04")
class AcceptsTurnAfterFinish(CountedStream):
    """Returns nothing for a speaker turn after finish instead of refusing it."""

    def new_speaker(self, change: Any) -> Emission:
        """Return nothing."""
        try:
            return super().new_speaker(change)
        except StreamClosed:
            return Emission((), self.stream.stats.audio_seconds, 0.0)


@violates("LIFE-05")
class RunsModelAfterLeadAlone(CountedStream):
    """Runs its engine at a finish after a silence without audio."""

    def finish(self) -> Emission:
        """Run it."""
        if self.silences and not self.stream.stats.audio_seconds:
            self.backend.engine_calls.wrap(int)()
        return super().finish()


@violates("LIFE-07")
class IsLastTakesOneStep(CountedStream):
    """Takes process_iter(is_last=True) for a step like any other."""

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Ignore it."""
        del is_last
        return super().process_iter()


class _ThreadedStream(CountedStream):
    """A stream that knows the thread that inserted last."""

    thread: Any = None

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Note it."""
        self.stream.insert_audio_chunk(audio, end_time)
        self.thread = threading.current_thread()

    @property
    def is_elsewhere(self) -> bool:
        """Whether another thread calls."""
        return self.thread not in (None, threading.current_thread())


@violates("ISO-03")
class LosesWordOfAnotherThread(_ThreadedStream):
    """Loses the words of a step by another thread than that of the insert."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop them."""
        return emission.replace(committed=()) if self.is_elsewhere else emission


@violates("ISO-03")
class FinishNeedsTheThreadOfInserts(_ThreadedStream):
    """Fails at a finish by another thread than that of the insert."""

    def finish(self) -> Emission:
        """Fail."""
        if self.is_elsewhere:
            raise RuntimeError("finish was called by a thread without a stream of the device")
        return super().finish()


class _OverlapBackend(FaultyBackend):
    """A backend that knows which engine calls overlap."""

    def __init__(self) -> None:
        super().__init__()
        self.wrap = self.engine_calls.wrap
        self.inside = 0
        self.overlaps = 0
        self.answer: Any = None
        self.engine_calls.wrap = self.mixing  # type: ignore[method-assign,assignment]  # the fault

    def mixing(self, function: Any, **options: Any) -> Any:
        """Wrap an engine call."""
        return partial(self.mixed, self.wrap(function, **options))

    def mixed(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Make the call, and answer it wrongly where another one began or ended meanwhile."""
        self.inside += 1
        is_shared, before = self.inside > 1, self.answer
        try:
            hypothesis = call(*args, **kwargs)
            is_shared = is_shared or self.inside > 1 or self.answer is not before
        finally:
            self.inside -= 1
        other, self.answer = self.answer, hypothesis
        self.overlaps += is_shared
        return self.shared(hypothesis, other) if is_shared else hypothesis

    def shared(self, hypothesis: Any, other: Any) -> Any:
        """Return the answer to a call that overlapped another one."""
        del other
        return hypothesis


@violates("ISO-02")
class TakesAnswerOfOtherCall(_OverlapBackend):
    """Returns the answer of the last call to one that overlaps it."""

    def shared(self, hypothesis: Any, other: Any) -> Any:
        """Return it."""
        return hypothesis if other is None else attrs.evolve(hypothesis, words=other.words)


@violates("ISO-02")
class LosesWordAfterThirdOverlap(_OverlapBackend):
    """Loses the last word of each engine call that overlaps another one, from the fourth on."""

    def shared(self, hypothesis: Any, other: Any) -> Any:
        """Lose it."""
        if self.overlaps <= 3:
            return hypothesis
        return attrs.evolve(hypothesis, words=hypothesis.words[:-1])


@violates("ISO-04")
class ReplacesMethodInStep(FaultyStream):
    """Sets a hook on the shared backend in a step, and removes it after it."""

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Set it."""
        self.backend.marks["hook"] = self.emitted
        try:
            return super().process_iter(is_last)
        finally:
            self.backend.marks.pop("hook", None)


@violates("ISO-04")
class LeavesModeAfterFailure(FaultyStream):
    """Leaves its engine in another mode after an exception."""

    def finish(self) -> Emission:
        """Leave it."""
        try:
            return super().finish()
        except BackendError:
            self.backend.engine.changes_mind = True
            raise


@violates("ISO-06")
class IgnoresCloseInStep(FaultyStream):
    """Ignores a close by another thread during a step."""

    is_stepping = False

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Note the step."""
        self.is_stepping = True
        try:
            return super().process_iter(is_last)
        finally:
            self.is_stepping = False

    def close(self) -> None:
        """Ignore it."""
        if not self.is_stepping:
            self.stream.close()


@violates("ERR-03")
class AcceptsSilenceWhenBroken(FaultyStream):
    """Accepts a silence once it is broken."""

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Ignore it."""
        try:
            self.stream.end_silence(seconds, offset)
        except StreamBroken:
            return


@violates("ERR-04")
class FailureBreaksNeighbours(FaultyStream):
    """Breaks every stream of the backend once engine calls of one have failed four times."""

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Count the failures."""
        if self.backend.marks.get("failures", 0) >= 4:
            raise StreamBroken("the engine failed too often")
        try:
            return super().process_iter(is_last)
        except BackendError:
            self.backend.marks["failures"] = self.backend.marks.get("failures", 0) + 1
            raise
