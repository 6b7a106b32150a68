"""Timed text of a stream: tokens, emissions, transcripts, speakers, silences, translations."""

from __future__ import annotations

from typing import Any, Self

import attrs


@attrs.frozen
class ASRToken:
    """
    A piece of committed or hypothesised text with its times on the stream clock.

    `start` and `end` are seconds from the start of the stream, silence included.  `text` carries
    its own spacing: the `text` of all tokens, joined with "", is the transcript.  `probability` is
    in [0, 1], or None if the backend does not declare the capability `probabilities`.  `spoken`
    holds the committed tokens in whose place text filters put this one; empty if there are none.
    """

    start: float
    end: float
    text: str
    probability: float | None = None
    speaker: int | str | None = None
    detected_language: str | None = None
    spoken: tuple[ASRToken, ...] = ()

    def shifted(self, seconds: float) -> ASRToken:
        """Return the same token, later by *seconds*."""
        spoken = tuple(token.shifted(seconds) for token in self.spoken)
        start, end = self.start + seconds, self.end + seconds
        return attrs.evolve(self, start=start, end=end, spoken=spoken)


@attrs.frozen
class ChangeSpeaker:
    """A speaker turn: words from `start` (stream seconds) on belong to `speaker`."""

    speaker: int | str
    start: float


@attrs.frozen
class Silence:
    """A pause between two stream times in seconds; its audio was not given to the model."""

    start: float
    end: float

    @property
    def duration(self) -> float:
        """The length in seconds."""
        return self.end - self.start

    def shifted(self, seconds: float) -> Silence:
        """Return the same silence, later by *seconds*."""
        return attrs.evolve(self, start=self.start + seconds, end=self.end + seconds)


@attrs.frozen
class Transcript:
    """Consecutive tokens, read as one piece of text."""

    tokens: tuple[ASRToken, ...] = ()

    @property
    def text(self) -> str:
        """The text of all tokens, joined; empty without tokens."""
        return "".join(token.text for token in self.tokens)

    @property
    def start(self) -> float | None:
        """Stream time of the first token's start, None without tokens."""
        return self.tokens[0].start if self.tokens else None

    @property
    def end(self) -> float | None:
        """Stream time of the last token's end, None without tokens."""
        return self.tokens[-1].end if self.tokens else None

    def shifted(self, seconds: float) -> Transcript:
        """Return the same transcript, later by *seconds*."""
        return Transcript(tuple(token.shifted(seconds) for token in self.tokens))


@attrs.frozen(slots=False, order=False, eq=False)
class Emission(tuple[tuple[ASRToken, ...], float]):  # noqa: SLOT001 -- tuples allow no named slots
    """
    The result of one call of an online processor.

    `committed` is final text.  `processed_up_to` is the stream time up to which the model has
    consumed the audio: the difference to the end of the inserted audio is the backlog.  No later
    token starts before `stable_up_to`.

    An emission is a pair, so that every call unpacks into exactly two values::

        tokens, processed_up_to = stream.process_iter()

    It equals another emission with the same three values, and never a plain pair.
    """

    committed: tuple[ASRToken, ...]
    processed_up_to: float
    stable_up_to: float

    def __new__(
        cls, committed: tuple[ASRToken, ...], processed_up_to: float, stable_up_to: float
    ) -> Self:
        """Return the pair of *committed* and *processed_up_to*."""
        del stable_up_to  # an attribute only, set by the constructor that attrs generates
        return super().__new__(cls, (committed, processed_up_to))

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return the arguments from which pickle and copy rebuild the emission."""
        return attrs.astuple(self, recurse=False)

    def __eq__(self, other: object) -> bool:
        """Compare all three values: a pair that equals two emissions would make them equal."""
        return isinstance(other, Emission) and attrs.astuple(self, recurse=False) == attrs.astuple(
            other, recurse=False
        )

    def __ne__(self, other: object) -> bool:
        """Negate `==`, which the comparison of tuples would not."""
        return not self == other

    def __hash__(self) -> int:
        """Hash all three values."""
        return hash(attrs.astuple(self, recurse=False))


@attrs.frozen
class SpeakerSpan:
    """A speaker between two stream times in seconds, as a diarizer found it."""

    speaker: int | str
    start: float
    end: float

    def shifted(self, seconds: float) -> SpeakerSpan:
        """Return the same span, later by *seconds*."""
        return attrs.evolve(self, start=self.start + seconds, end=self.end + seconds)


@attrs.frozen
class TranslatedText:
    """The translation of what was spoken between two stream times in seconds."""

    text: str
    start: float
    end: float
    language: str | None = None

    def shifted(self, seconds: float) -> TranslatedText:
        """Return the same translation, later by *seconds*."""
        return attrs.evolve(self, start=self.start + seconds, end=self.end + seconds)
