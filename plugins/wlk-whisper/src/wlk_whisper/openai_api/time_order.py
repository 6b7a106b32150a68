"""The times of an answer, put in order and within the audio that was sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_whisper.openai_api.response import ResponseSegment, ResponseWord

__all__ = ["TimeOrderError", "in_order"]

S = TypeVar("S", "ResponseWord", "ResponseSegment")

WINDOW_SECONDS = 30.0  # Whisper pads audio to its window, so times may lie that far beyond the end
ORDER_SECONDS = 1.0  # a model's times jitter by a few tenths; a word lasts less than a second


class TimeOrderError(ValueError):
    """Times that belong to other words or other audio; the message quotes them."""


def in_order(spans: Iterable[S], *, audio_seconds: float) -> tuple[S, ...]:
    """
    Return *spans* with starts that never go back, all times within the audio.

    A time before the audio or after it becomes its start or its end.  A span that ends before it
    starts has no length.  A span that starts before the one in front of it starts where that one
    ends.

    Raises:
        TimeOrderError: a time lies more than WINDOW_SECONDS after the audio, or a start more than
            ORDER_SECONDS before the previous one.

    """
    ordered: list[S] = []
    previous_start = previous_end = 0.0
    for span in spans:
        if max(span.start, span.end) > audio_seconds + WINDOW_SECONDS:
            raise TimeOrderError(
                f"expected times in seconds within the {audio_seconds:.1f} s sent, got "
                f"{span.start:g} to {span.end:g}"
            )
        if span.start < previous_start - ORDER_SECONDS:
            raise TimeOrderError(
                f"expected words in the order of their times, got {span.start:g} s after "
                f"{previous_start:g} s"
            )
        start = max(0.0, span.start) if span.start >= previous_start else previous_end
        start = min(start, audio_seconds)
        end = min(max(start, span.end), audio_seconds)
        ordered.append(attrs.evolve(span, start=start, end=end))
        previous_start, previous_end = start, end
    return tuple(ordered)
