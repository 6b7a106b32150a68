"""Sinners against COM and HYP."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.sinners.sinner import Sin, sinner
from wlk_core import EPS, SAMPLE_RATE, Transcript

if TYPE_CHECKING:
    from wlk_core import ASRToken, Emission

__all__: list[str] = []

LONG_IDLE = 4  # calls in a row that have nothing to do


@sinner("COM-01")
class RepeatsItselfWhenIdle(Sin):
    """Commits its last token again when it is asked often without new audio."""

    idle = 0
    reached = 0.0
    last: ASRToken | None = None

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Begin to count anew."""
        self.stream.insert_audio_chunk(audio, end_time)
        self.idle = 0

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Repeat the last token."""
        is_idle = call == "process_iter" and emission.processed_up_to == self.reached
        self.idle, self.reached = self.idle + 1 if is_idle else 0, emission.processed_up_to
        if self.idle == LONG_IDLE and self.last is not None:
            again = attrs.evolve(self.last, start=emission.stable_up_to, end=emission.stable_up_to)
            return attrs.evolve(emission, committed=(*emission.committed, again))
        if emission.committed:
            self.last = emission.committed[-1]
        return emission


@sinner("COM-01", defects="B56")
class TakesAWordSaidTwiceForAnOverlap(Sin):
    """Drops a word that follows the same word directly, as an overlap of two hypotheses."""

    before = ""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Drop it where three pairs come one after the other."""
        del call
        kept = []
        for token in emission.committed:
            text = token.text.strip()
            if text == "nine" and self.before.endswith("seven seven three three nine"):
                continue
            kept.append(token)
            self.before += f" {text}"
        return attrs.evolve(emission, committed=tuple(kept))


@sinner("COM-02")
class ReturnsAList(Sin):
    """Hands out its own list of tokens."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Return a list."""
        del call
        listed: Any = list(emission.committed)
        return attrs.evolve(emission, committed=listed) if listed else emission


@attrs.define
class _LooseToken:
    start: float
    end: float
    text: str
    probability: float | None = None
    speaker: int | str | None = None
    detected_language: str | None = None


@sinner("COM-02")
class ReturnsLooseTokens(Sin):
    """Hands out tokens that can be changed."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Copy each token into one that is not frozen."""
        del call
        loose: Any = tuple(_LooseToken(**attrs.asdict(token)) for token in emission.committed)
        return attrs.evolve(emission, committed=loose)


@sinner("COM-03", defects="B13")
class SplitsACharacter(Sin):
    """Decodes the bytes of a character that is not ASCII one by one."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Replace each character whose bytes come apart."""
        del call
        return attrs.evolve(
            emission,
            committed=tuple(
                attrs.evolve(
                    token, text="".join(c if c.isascii() else "\ufffd" for c in token.text)
                )
                for token in emission.committed
            ),
        )


@sinner("COM-03", defects="B12")
class SpacesOutScripts(Sin):
    """Puts a space before every token that has none."""

    said = False

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Put it, but before the first."""
        del call
        tokens = []
        for token in emission.committed:
            needs = self.said and not token.text.startswith(" ")
            tokens.append(attrs.evolve(token, text=f" {token.text}" if needs else token.text))
            self.said = True
        return attrs.evolve(emission, committed=tuple(tokens))

    def reset(self) -> None:
        """Begin anew."""
        self.said = False
        self.stream.reset()


@sinner("COM-04")
class NeverTheSameTwice(Sin):
    """Reports what is stable for two of four streams only."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.backend.marks["streams"] = self.backend.marks.get("streams", 0) + 1
        self.is_shy = self.backend.marks["streams"] // 2 % 2 == 0

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Say that nothing is stable."""
        del call
        return attrs.evolve(emission, stable_up_to=0.0) if self.is_shy else emission


@sinner("COM-05", defects="B14")
class TicksWithTheChunks(Sin):
    """Hears the words of a chunk of five seconds later than those of others."""

    is_late = False

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Look at the length."""
        self.stream.insert_audio_chunk(audio, end_time)
        self.is_late = len(audio) == 5 * SAMPLE_RATE

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Write the words of such a chunk in another way."""
        del call
        if not self.is_late:
            return emission
        tokens = (attrs.evolve(token, text=token.text.title()) for token in emission.committed)
        return attrs.evolve(emission, committed=tuple(tokens))


@sinner("COM-06")
class HearsTheFuture(Sin):
    """Shows a word where no audio is yet."""

    def get_buffer(self) -> Transcript:
        """Move the last word behind the audio."""
        shown: Transcript = self.stream.get_buffer()
        if not shown.tokens:
            return shown
        end = self.stream.stats.audio_seconds + EPS / 2
        return Transcript((*shown.tokens[:-1], attrs.evolve(shown.tokens[-1], start=end, end=end)))


@sinner("HYP-01")
class TiresOfBeingRead(Sin):
    """Shows nothing to the third reader in a row."""

    reads = 0

    def get_buffer(self) -> Transcript:
        """Count the readers."""
        self.reads += 1
        shown: Transcript = self.stream.get_buffer()
        return Transcript() if self.reads % 3 == 0 else shown

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Begin to count anew."""
        del call
        self.reads = 0
        return emission


@sinner("HYP-01")
class ReadsUnderTheLockOfTheModel(Sin):
    """Waits with get_buffer until the step that is running has ended."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.lock = threading.Lock()

    def get_buffer(self) -> Transcript:
        """Wait."""
        with self.lock:
            shown: Transcript = self.stream.get_buffer()
            return shown

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Hold the lock over the step, unless it is held: overlapping calls are refused."""
        if not self.lock.acquire(blocking=False):
            return super().process_iter(is_last)
        try:
            return super().process_iter(is_last)
        finally:
            self.lock.release()


@sinner("HYP-02")
class ShowsWhatIsCommitted(Sin):
    """Shows the last committed word in the hypothesis too."""

    last: tuple[ASRToken, ...] = ()

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Remember the last word."""
        del call
        self.last = emission.committed[-1:] or self.last
        return emission

    def get_buffer(self) -> Transcript:
        """Put it before the hypothesis."""
        shown: Transcript = self.stream.get_buffer()
        return Transcript((*self.last, *shown.tokens)) if shown.tokens else shown


@sinner("HYP-02", defects="B46")
class ShowsNothing(Sin):
    """Declares a hypothesis and never shows one."""

    def get_buffer(self) -> Transcript:
        """Show nothing that is not due."""
        shown: Transcript = self.stream.get_buffer()
        due = self.stream.stats.audio_seconds - (self.backend.spec.max_delay or 0) - 1
        return Transcript(tuple(token for token in shown.tokens if token.end < due))


@sinner("HYP-03", defects="B46")
class KeepsItsHypothesis(Sin):
    """Shows its last hypothesis after finish."""

    shown = Transcript()

    def get_buffer(self) -> Transcript:
        """Show what finish committed."""
        shown: Transcript = self.stream.get_buffer()
        return shown if shown.tokens else self.shown

    def finish(self) -> Emission:
        """Keep what is shown."""
        self.shown = self.stream.get_buffer()
        return super().finish()

    def reset(self) -> None:
        """Forget it."""
        self.shown = Transcript()
        self.stream.reset()
