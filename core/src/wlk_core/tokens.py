"""Timed text of a stream: tokens, emissions, transcripts, speakers, silences, translations."""

from __future__ import annotations

from typing import Any, Self

import attrs


@attrs.frozen
class ASRToken:
    """
    A piece of committed or hypothesised text with its times on the stream clock.

    `start` and `end` are seconds from the start of the stream, silence included.  `text` carries
    its own spacing: joining the texts of a stream with "" gives the transcript.  `probability`
    is in [0, 1], or None where the backend does not declare the capability.
    """

    start: float
    end: float
    text: str
    probability: float | None = None
    speaker: int | str | None = None
    detected_language: str | None = None


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


@attrs.frozen
class Transcript:
    """Consecutive tokens read as one text."""

    tokens: tuple[ASRToken, ...] = ()

    @property
    def text(self) -> str:
        """The tokens' texts, joined; empty where there are none."""
        return "".join(token.text for token in self.tokens)

    @property
    def start(self) -> float | None:
        """Stream time of the first token's start, None where there are no tokens."""
        return self.tokens[0].start if self.tokens else None

    @property
    def end(self) -> float | None:
        """Stream time of the last token's end, None where there are no tokens."""
        return self.tokens[-1].end if self.tokens else None


@attrs.frozen(slots=False, order=False)
class Emission(tuple[tuple[ASRToken, ...], float]):  # noqa: SLOT001 -- tuples allow no named slots
    """
    The result of one call of an online processor.

    `committed` is final text.  `processed_up_to` is the stream time up to which the model has
    consumed the audio: the difference to the end of the inserted audio is the backlog.  No later
    token starts before `stable_up_to`.

    An emission is a pair, because every call is unpacked into exactly two values::

        tokens, processed_up_to = stream.process_iter()

    So it equals a plain pair of these values, and another emission only with its `stable_up_to`.
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

    def replace(self, **changes: Any) -> Emission:
        """Return a copy with other values."""
        return Emission(**attrs.asdict(self, recurse=False) | changes)

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return the arguments with which pickle and copy make the same emission."""
        return attrs.astuple(self, recurse=False)

    def __hash__(self) -> int:
        """Hash the pair, which an emission equals."""
        return super().__hash__()


@attrs.frozen
class SpeakerSpan:
    """A speaker between two stream times in seconds, as a diarizer found it."""

    speaker: int | str
    start: float
    end: float


@attrs.frozen
class TranslatedText:
    """The translation of what was spoken between two stream times in seconds."""

    text: str
    start: float
    end: float
    language: str | None = None
