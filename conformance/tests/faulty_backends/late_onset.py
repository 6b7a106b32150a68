"""Faults that begin late: after a number of words, pauses, turns or flushes."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import attrs

from faulty_backends.base import (
    CountedStream,
    FaultyBackend,
    FaultyStream,
    edited,
    violates,
    with_tokens,
)
from wlk_core import ASRToken

if TYPE_CHECKING:
    from wlk_core import Emission

__all__: list[str] = []

_NUMBERS = count()


@violates("COM-04")
class JittersAfterThirdWord(CountedStream):
    """Reports a probability that changes from run to run, from the fourth word on."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Change the fourth word and later ones."""
        for index in range(max(0, 3 - self.words), len(emission.committed)):
            emission = edited(emission, index, probability=1 / (2 + next(_NUMBERS) % 1000))
        return emission


@violates("COM-04")
class RemembersEarlierStreams(FaultyStream):
    """Reports a probability that shrinks with the number of streams that were opened before."""

    def __init__(self, stream: Any, backend: FaultyBackend, language: str | None = None) -> None:
        super().__init__(stream, backend, language)
        self.number = backend.marks["streams"] = backend.marks.get("streams", 0) + 1

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Report it."""
        for index in range(len(emission.committed)):
            emission = edited(emission, index, probability=1 / self.number)
        return emission


@violates("COM-06", detector="sessions")
class FutureWordAfterSecondFlush(CountedStream):
    """Starts the last word of a flush at the end of the audio, from the third flush on."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Move it."""
        if self.flushes < 3 or call == "process_iter":
            return emission
        end = emission.processed_up_to
        return edited(emission, -1, start=end, end=end)


@violates("LIFE-01", detector="sessions")
class CommitsPrefixAfterReset(CountedStream):
    """Commits a prefix before any audio, in the life after a reset."""

    is_reset = False

    def reset(self) -> None:
        """Note it."""
        super().reset()
        self.is_reset = True

    def changed(self, emission: Emission, call: str) -> Emission:
        """Commit it."""
        if not self.is_reset or self.stream.stats.audio_seconds or call == "finish":
            return emission
        return emission.replace(committed=(ASRToken(0.0, 0.0, "you", 1.0),))


@violates("LIFE-02")
class FinishReturnsThreeWords(CountedStream):
    """Returns three words at most from finish."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop the others."""
        return emission.replace(committed=emission.committed[:3]) if call == "finish" else emission


@violates("QUAL-01", tiers=("speech",), spec={"bounds": {"wer": 0.02}})
class LosesWordsAfterEighth(CountedStream):
    """Drops every word after the eighth, and declares two errors in a hundred words."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop them."""
        return emission.replace(committed=emission.committed[: max(0, 8 - self.words)])


class _HoldingStream(CountedStream):
    """A stream that holds back words, and returns them with a flush."""

    held: tuple[ASRToken, ...] = ()

    def release(self, emission: Emission, kept: int) -> Emission:
        """Return what is held and all but the last *kept* words of *emission*."""
        words = (*self.held, *emission.committed)
        cut = len(words) - kept
        self.held = words[cut:]
        return emission.replace(committed=words[:cut], stable_up_to=0.0)

    def reset(self) -> None:
        """Drop what is held."""
        super().reset()
        self.held = ()


@violates("RES-03")
class HoldsBackAfterFifthWord(_HoldingStream):
    """Holds back every word after the fifth until a flush, and shows it nowhere."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Hold them back."""
        total = len(self.held) + len(emission.committed)
        is_flush = call != "process_iter"
        return self.release(emission, 0 if is_flush or self.words < 5 else total)


@violates("RES-04")
class DetokenisesMoreAfterEachPause(CountedStream):
    """Passes each id to its detokeniser more often after each pause, from the third on."""

    @property
    def stats(self) -> Any:
        """Count it."""
        stats = self.stream.stats
        times = 10 * max(1, self.silences - 2)
        return attrs.evolve(stats, detokenised_ids=times * (stats.detokenised_ids or 0))


@violates("SIL-01")
class SilenceReturnsThreeWords(_HoldingStream):
    """Returns three words at most from start_silence, and the others with the next call."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Keep the others."""
        total = len(self.held) + len(emission.committed)
        return self.release(emission, max(0, total - 3) if call == "start_silence" else 0)


@violates("SIL-02", detector="sessions")
class RepeatsWordAtFourthFlush(CountedStream):
    """Commits the last word again at a second start_silence, from the fourth flush on."""

    last: tuple[ASRToken, ...] = ()

    def changed(self, emission: Emission, call: str) -> Emission:
        """Repeat it."""
        is_due = call == "start_silence" and self.flushes >= 4 and not emission.committed
        self.last = emission.committed[-1:] or self.last
        return emission.replace(committed=self.last) if is_due else emission


@violates("SIL-04")
class DriftsAfterFiftySilences(CountedStream):
    """Moves the clock by 10 ms too much at the fifty-first silence and each later one."""

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Add them."""
        super().end_silence(seconds + (0.01 if self.silences >= 50 else 0.0), offset)


@violates("TIME-02")
class GoesBackAfterThirdTurn(CountedStream):
    """Starts the first word after the third turn before the last word of that turn."""

    turns = 0
    last_start = 0.0

    def changed(self, emission: Emission, call: str) -> Emission:
        """Move it; no time is reported as stable."""
        is_due, self.turns = self.turns == 3, self.turns + (call == "new_speaker")
        if is_due and emission.committed:
            self.turns += 1
            emission = edited(emission, 0, start=max(0.0, self.last_start - 0.1))
        elif is_due and call != "new_speaker":
            self.turns = 3
        self.last_start = emission.committed[-1].start if emission.committed else self.last_start
        return emission.replace(stable_up_to=0.0)


@violates("TIME-05")
class SpreadsAfterThirdWord(CountedStream):
    """Starts every word after the third where the word before it ends."""

    last_end = 0.0

    def changed(self, emission: Emission, call: str) -> Emission:
        """Move them; no time is reported as stable."""
        for index, token in enumerate(emission.committed):
            if self.words + index >= 3:
                emission = edited(emission, index, start=self.last_end)
            self.last_end = token.end
        return emission.replace(stable_up_to=0.0)


@violates("TIME-01", detector="sessions")
class EndsBeforeStartAfterFifthFlush(CountedStream):
    """Ends the last word of a flush before it begins, from the fifth flush on."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Move its end."""
        if self.flushes < 5 or not emission.committed:
            return emission
        return edited(emission, -1, end=emission.committed[-1].start - 0.05)


@violates("IN-05")
class LosesWordAfterLongBacklog(CountedStream):
    """Loses the word that follows a backlog of more than fifteen seconds."""

    is_due = False

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        waiting = self.stream.stats.audio_seconds - emission.processed_up_to
        is_due, self.is_due = self.is_due, self.is_due or waiting > 15
        if not is_due or not emission.committed:
            return emission
        self.is_due = False
        return emission.replace(committed=emission.committed[1:])


@violates("LANG-01", detector="sessions")
class ForgetsLanguageAfterTenWords(CountedStream):
    """Reports no language from the eleventh word on, a forced one included."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        for index in range(max(0, 10 - self.words), len(emission.committed)):
            emission = edited(emission, index, detected_language=None)
        return emission


@violates("LANG-02", tiers=("speech",))
class SwitchesLanguageAfterSixWords(CountedStream):
    """Reports English speech as German from the seventh word on."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Report it, where no language is forced."""
        first = max(0, 6 - self.words) if self.language is None else len(emission.committed)
        for index in range(first, len(emission.committed)):
            emission = edited(emission, index, detected_language="de")
        return emission


@violates("LIFE-08")
class LosesTwoHundredthWord(CountedStream):
    """Loses the two-hundredth word of a stream without a pause."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Drop it."""
        kept = [
            token
            for number, token in enumerate(emission.committed, self.words + 1)
            if number != 200 or self.silences
        ]
        return emission.replace(committed=tuple(kept))


@violates("LIFE-09")
class SecondWarmupFails(FaultyBackend):
    """Raises at its second warmup, because its caches are allocated already."""

    def warmup(self) -> None:
        """Count it."""
        super().warmup()
        self.marks["warmups"] = self.marks.get("warmups", 0) + 1
        if self.marks["warmups"] == 2:
            raise RuntimeError("the cache is allocated already")


@violates("LANG-01", detector="sessions")
class ReportsEnglishAfterLongSilence(CountedStream):
    """Reports a forced language as English after a silence of more than 20 s."""

    is_due = False

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Forget it."""
        super().end_silence(seconds, offset)
        self.is_due = self.is_due or seconds > 20

    def changed(self, emission: Emission, call: str) -> Emission:
        """Report it."""
        if not self.is_due or self.language is None:
            return emission
        return with_tokens(emission, detected_language="en")
