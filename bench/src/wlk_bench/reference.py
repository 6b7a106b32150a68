"""The ground truth of a stream: its text, times of words and segments if known, and turns."""

from __future__ import annotations

import math

import attrs

from wlk_bench.errors import DataError


def _check_span(span: ReferenceWord | ReferenceSegment, _attribute: object, end: float) -> None:
    if not 0 <= span.start <= end < math.inf:
        raise _wrong_span("0 <= start <= end", span.text, span.start, end)


def _check_turn(turn: ReferenceTurn, _attribute: object, end: float) -> None:
    """Check the span of a turn, which unlike that of a word cannot be empty."""
    if not 0 <= turn.start < end < math.inf:
        raise _wrong_span("0 <= start < end", turn.speaker, turn.start, end)


def _wrong_span(expected: str, name: str, start: float, end: float) -> DataError:
    return DataError(
        f"expected {expected} in seconds for {name!r}, got {start} to {end}; correct the reference"
    )


@attrs.frozen
class ReferenceWord:
    """A word and its true times, in seconds of the stream."""

    text: str
    start: float
    end: float = attrs.field(validator=_check_span)


@attrs.frozen
class ReferenceSegment:
    """An utterance of a longer stream; LongYAAL re-segments the text to these."""

    text: str
    start: float
    end: float = attrs.field(validator=_check_span)


@attrs.frozen
class ReferenceTurn:
    """A span in which one speaker talks; `speaker` is empty if unknown."""

    speaker: str
    start: float
    end: float = attrs.field(validator=_check_turn)


@attrs.frozen(kw_only=True)
class Reference:
    """
    The ground truth of one stream.

    `words` is empty if the word times are unknown.  `segments` is empty if the stream is a single
    utterance, which counts as one segment from 0 to the end of the audio.
    """

    text: str
    words: tuple[ReferenceWord, ...] = ()
    segments: tuple[ReferenceSegment, ...] = ()
