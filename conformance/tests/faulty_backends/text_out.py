"""Faulty backends that break COM and HYP."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import attrs

from faulty_backends.base import FaultyStream, breaks
from wlk_core import EPS, SAMPLE_RATE, Emission, Transcript

if TYPE_CHECKING:
    from wlk_core import ASRToken

__all__: list[str] = []

LONG_IDLE = 4  # calls in a row that have nothing to do


@breaks("COM-01")
class RepeatsWordWhenIdle(FaultyStream):
    """Commits its last token again after several calls without new audio."""

    idle = 0
    reached = 0.0
    last: ASRToken | None = None

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Restart the count."""
        self.stream.insert_audio_chunk(audio, end_time)
        self.idle = 0

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Repeat the last token."""
        is_idle = call == "process_iter" and emission.processed_up_to == self.reached
        self.idle, self.reached = self.idle + 1 if is_idle else 0, emission.processed_up_to
        if self.idle == LONG_IDLE and self.last is not None:
            again = attrs.evolve(self.last, start=emission.stable_up_to, end=emission.stable_up_to)
            return emission.replace(committed=(*emission.committed, again))
        if emission.committed:
            self.last = emission.committed[-1]
        return emission


@breaks("COM-01")
class DropsRepeatedWord(FaultyStream):
    """Drops a word that directly follows the same word, as if hypotheses overlapped."""

    before = ""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Drop it where three pairs follow each other."""
        del call
        kept = []
        for token in emission.committed:
            text = token.text.strip()
            if text == "nine" and self.before.endswith("seven seven three three nine"):
                continue
            kept.append(token)
            self.before += f" {text}"
        return emission.replace(committed=tuple(kept))


@breaks("COM-02")
class ReturnsList(FaultyStream):
    """Returns its own list of tokens."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Return a list."""
        del call
        tokens: Any = list(emission.committed)
        if not tokens:
            return emission
        return Emission(tokens, emission.processed_up_to, emission.stable_up_to)


@attrs.define
class _MutableToken:
    start: float
    end: float
    text: str
    probability: float | None = None
    speaker: int | str | None = None
    detected_language: str | None = None


@breaks("COM-02")
class ReturnsMutableTokens(FaultyStream):
    """Returns tokens that can be changed."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Copy each token into a mutable one."""
        del call
        mutable: Any = [_MutableToken(**attrs.asdict(token)) for token in emission.committed]
        return emission.replace(committed=tuple(mutable))


@breaks("COM-03")
class SplitsCharacters(FaultyStream):
    """Decodes the bytes of a character that is not ASCII one by one."""

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Replace each character whose bytes come apart."""
        del call
        return emission.replace(
            committed=tuple(
                attrs.evolve(
                    token, text="".join(c if c.isascii() else "\ufffd" for c in token.text)
                )
                for token in emission.committed
            ),
        )


@breaks("COM-03")
class InventsSpaces(FaultyStream):
    """Puts a space before every token that begins without one."""

    has_text = False

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Put it, except before the first token."""
        del call
        tokens = []
        for token in emission.committed:
            needs_space = self.has_text and not token.text.startswith(" ")
            tokens.append(attrs.evolve(token, text=f" {token.text}" if needs_space else token.text))
            self.has_text = True
        return emission.replace(committed=tuple(tokens))

    def reset(self) -> None:
        """Start over."""
        self.has_text = False
        self.stream.reset()


@breaks("COM-04")
class IsNotDeterministic(FaultyStream):
    """Reports no stable time for two of every four streams."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.backend.marks["streams"] = self.backend.marks.get("streams", 0) + 1
        self.is_shy = self.backend.marks["streams"] // 2 % 2 == 0

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Report no stable time."""
        del call
        return emission.replace(stable_up_to=0.0) if self.is_shy else emission


@breaks("COM-05")
class DependsOnChunkSize(FaultyStream):
    """Writes the words of a chunk of five seconds in title case."""

    is_late = False

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Note the length."""
        self.stream.insert_audio_chunk(audio, end_time)
        self.is_late = len(audio) == 5 * SAMPLE_RATE

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Write the words of such a chunk in title case."""
        del call
        if not self.is_late:
            return emission
        tokens = (attrs.evolve(token, text=token.text.title()) for token in emission.committed)
        return emission.replace(committed=tuple(tokens))


@breaks("COM-06")
class ShowsFutureWord(FaultyStream):
    """Shows a word at a time that has no audio yet."""

    def get_buffer(self) -> Transcript:
        """Move the last word after the end of the audio."""
        shown: Transcript = self.stream.get_buffer()
        if not shown.tokens:
            return shown
        end = self.stream.stats.audio_seconds + EPS / 2
        return Transcript((*shown.tokens[:-1], attrs.evolve(shown.tokens[-1], start=end, end=end)))


@breaks("HYP-01")
class HypothesisDependsOnReads(FaultyStream):
    """Shows an empty hypothesis to every third reader."""

    reads = 0

    def get_buffer(self) -> Transcript:
        """Count the readers."""
        self.reads += 1
        shown: Transcript = self.stream.get_buffer()
        return Transcript() if self.reads % 3 == 0 else shown

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Restart the count."""
        del call
        self.reads = 0
        return emission


@breaks("HYP-01")
class ReadWaitsForStep(FaultyStream):
    """Makes get_buffer wait for the end of a running step."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.lock = threading.Lock()

    def get_buffer(self) -> Transcript:
        """Wait."""
        with self.lock:
            shown: Transcript = self.stream.get_buffer()
            return shown

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Hold the lock during the step; an overlapping call is refused without it."""
        if not self.lock.acquire(blocking=False):
            return super().process_iter(is_last)
        try:
            return super().process_iter(is_last)
        finally:
            self.lock.release()


@breaks("HYP-02")
class ShowsCommittedWord(FaultyStream):
    """Shows the last committed word in the hypothesis as well."""

    last: tuple[ASRToken, ...] = ()

    def emitted(self, emission: Emission, call: str) -> Emission:
        """Note the last word."""
        del call
        self.last = emission.committed[-1:] or self.last
        return emission

    def get_buffer(self) -> Transcript:
        """Put it before the hypothesis."""
        shown: Transcript = self.stream.get_buffer()
        return Transcript((*self.last, *shown.tokens)) if shown.tokens else shown


@breaks("HYP-02")
class ShowsNothing(FaultyStream):
    """Declares a hypothesis and always shows an empty one."""

    def get_buffer(self) -> Transcript:
        """Show only words that are due."""
        shown: Transcript = self.stream.get_buffer()
        due = self.stream.stats.audio_seconds - (self.backend.spec.max_delay or 0) - 1
        return Transcript(tuple(token for token in shown.tokens if token.end < due))


@breaks("HYP-03")
class KeepsHypothesisAfterFinish(FaultyStream):
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
        """Drop it."""
        self.shown = Transcript()
        self.stream.reset()
