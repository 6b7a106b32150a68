"""The ground truth of a stream: its text, times of words and segments if known, and turns."""

from __future__ import annotations

import math
from typing import Any

import attrs

from wlk_bench.errors import DataError


def _check_span(instance: Any, _attribute: object, end: float) -> None:
    sign = "<" if isinstance(instance, ReferenceTurn) else "<="  # a word may have no length
    if not 0 <= instance.start <= end < math.inf or (sign == "<" and instance.start == end):
        raise DataError(
            f"expected 0 <= start {sign} end in seconds for {attrs.astuple(instance)[0]!r}, "
            f"got {instance.start} to {end}; correct the reference"
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
    end: float = attrs.field(validator=_check_span)


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
