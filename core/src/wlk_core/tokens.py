"""Timed text: what a stream commits, shows and is told about speakers and silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ASRToken", "ChangeSpeaker", "Emission", "Silence", "Transcript"]


@attrs.frozen
class ASRToken:
    """
    A piece of committed or hypothesised text with its place on the stream clock.

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
    """From `start` (stream seconds) on, `speaker` speaks."""

    speaker: int | str
    start: float


@attrs.frozen
class Silence:
    """Audio that was left out of the stream between two stream times, in seconds."""

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


@attrs.frozen
class Emission:
    """
    What one call of an online processor brought forth.

    `committed` is final text.  `processed_up_to` is the stream time up to which the model has
    consumed the audio: the difference to the end of the inserted audio is the backlog.  No later
    token starts before `stable_up_to`.  Unpacks into exactly two values, for ever::

        tokens, processed_up_to = stream.process_iter()
    """

    committed: tuple[ASRToken, ...]
    processed_up_to: float
    stable_up_to: float

    def __iter__(self) -> Iterator[tuple[ASRToken, ...] | float]:
        """Iterate over `committed` and `processed_up_to`."""
        yield self.committed
        yield self.processed_up_to
