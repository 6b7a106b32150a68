"""Faults of turns that few callers make: of many speakers, far away and in a silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from faulty_backends.base import CountedStream, violates, with_tokens

if TYPE_CHECKING:
    from wlk_core import Emission

__all__: list[str] = []

FAR = 3.0  # seconds


@violates("SPK-02", detector="sessions")
class HasFourSpeakers(CountedStream):
    """Keeps its speakers in four slots, so that the fifth one is the first again."""

    def new_speaker(self, change: Any) -> Emission:
        """Choose the slot."""
        if isinstance(change.speaker, int):
            change = attrs.evolve(change, speaker=change.speaker % 4)
        return super().new_speaker(change)


@violates("SPK-02", detector="sessions")
class IgnoresTurnFarBack(CountedStream):
    """Flushes at a turn that began more than three seconds ago, and keeps the old speaker."""

    end = 0.0

    def changed(self, emission: Emission, call: str) -> Emission:
        """Note the time."""
        self.end = emission.processed_up_to
        return emission

    def new_speaker(self, change: Any) -> Emission:
        """Ignore it."""
        if self.end - change.start > FAR:
            return super().process_iter(True)
        return super().new_speaker(change)


@violates("SPK-02", detector="sessions")
class ForgetsTurnInSilence(CountedStream):
    """Forgets a turn between start_silence and end_silence when the silence ends."""

    is_silent = is_lost = False
    speaker: Any = None
    before: Any = None

    def start_silence(self) -> Emission:
        """Begin it."""
        emission = super().start_silence()
        self.is_silent = True
        return emission

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Forget the turn."""
        super().end_silence(seconds, offset)
        self.is_silent = False

    def new_speaker(self, change: Any) -> Emission:
        """Note whether it is in a silence."""
        self.is_lost = self.is_silent
        self.before, self.speaker = self.speaker, change.speaker
        return super().new_speaker(change)

    def changed(self, emission: Emission, call: str) -> Emission:
        """Attribute the words to the speaker before."""
        return with_tokens(emission, speaker=self.before) if self.is_lost else emission

    def reset(self) -> None:
        """Begin anew."""
        super().reset()
        self.is_silent = self.is_lost = False
        self.speaker = self.before = None
