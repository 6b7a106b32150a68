"""What is done to the word times that the cross-attention gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_core.streaming import Word

__all__ = ["settle_times", "without_loops"]

RATE = 16_000
FRAME = 160  # samples: energy is looked at every 10 ms
QUIET_DB = 35.0  # this far below the loudest moment of a word it is over ...
QUIET_SHARE = 0.7  # ... or, in noise, this share of the way down to the quietest moments
SPILL_FRAMES = 8  # a sound at the edge of the span this short, with a pause behind it, ...
PAUSE_FRAMES = 5  # ... of at least this length, is the neighbour's
SHIFT_FRAMES = 25  # how far a boundary that lies within sound is moved to the nearest pause ...
GAP_FRAMES = 7  # ... of at least this length: longer than the closures inside most words
LOOP_WORDS = 3  # words without duration in a row: the decoder runs on without audio


def without_loops(words: Sequence[Word]) -> tuple[Word, ...]:
    """
    Return *words* up to where the decoder repeats itself without hearing anything.

    Words of a repetition loop share one place in the audio: the alignment has nowhere to put them.
    """
    idle = 0
    for index, word in enumerate(words):
        idle = idle + 1 if word.end <= word.start else 0
        if idle == LOOP_WORDS:
            return tuple(words[: index - LOOP_WORDS + 1])
    return tuple(words)


def settle_times(words: Sequence[Word], audio: NDArray[np.float32]) -> tuple[Word, ...]:
    """
    Return *words* without the silence that the alignment put into their spans.

    The alignment knows only where the attention passes from one token to the next, give or take
    0.2 s, and the pause between two words lies within the span of one of them.  So a boundary that
    falls into sound is moved to a pause close by, if there is one; and of the span between two
    boundaries the quiet frames at either edge are not the word, nor is a short sound at the very
    edge with a pause behind it: that is the neighbour's.  Audio without pauses keeps the times of
    the model.  *audio*, float32[n], is what the times count in.
    """
    decibels = _loudness(audio)
    if len(decibels) == 0:
        return tuple(words)
    floor = float(np.percentile(decibels, 10))
    return tuple(_settled(word, decibels, floor) for word in _moved(words, decibels, floor))


def _moved(words: Sequence[Word], decibels: NDArray[np.float64], floor: float) -> list[Word]:
    """Return *words* with each common boundary of two of them moved into a pause nearby."""
    moved = list(words)
    reach = SHIFT_FRAMES + GAP_FRAMES  # so that a pause which begins at the limit is seen
    for index in range(1, len(moved)):
        before, after = moved[index - 1], moved[index]
        boundary = round(after.start * RATE / FRAME)
        if after.start - before.end > FRAME / RATE:
            continue  # the model itself sees a pause
        first = max(round(before.middle * RATE / FRAME), boundary - reach)
        behind = min(round(after.middle * RATE / FRAME), boundary + reach)
        pauses = _sounds(~_is_loud(decibels[first:behind], floor))
        pauses = [p for p in pauses if p[1] - p[0] >= GAP_FRAMES]
        if not pauses or any(a <= boundary - first <= b for a, b in pauses):
            continue
        nearest = min(
            pauses, key=lambda p: min(abs(p[0] + first - boundary), abs(p[1] + first - boundary))
        )
        time = (first + (nearest[0] + nearest[1]) // 2) * FRAME / RATE
        moved[index - 1] = attrs.evolve(before, end=time)
        moved[index] = attrs.evolve(after, start=time)
    return moved


def _settled(word: Word, decibels: NDArray[np.float64], floor: float) -> Word:
    first, behind = round(word.start * RATE / FRAME), round(word.end * RATE / FRAME)
    span = decibels[first:behind]
    if len(span) == 0:
        return word
    sounds = _sounds(_is_loud(span, floor))
    if len(sounds) > 1 and sounds[0][0] == 0 and _is_spill(sounds[0], sounds[1][0] - sounds[0][1]):
        sounds = sounds[1:]
    if (
        len(sounds) > 1
        and sounds[-1][1] == len(span)
        and _is_spill(sounds[-1], sounds[-1][0] - sounds[-2][1])
    ):
        sounds = sounds[:-1]
    start = max(word.start, (first + sounds[0][0]) * FRAME / RATE)
    return attrs.evolve(
        word, start=start, end=max(start, min(word.end, (first + sounds[-1][1]) * FRAME / RATE))
    )


def _is_loud(span: NDArray[np.float64], floor: float) -> NDArray[np.bool_]:
    if len(span) == 0:
        return np.zeros(0, dtype=np.bool_)
    peak = float(span.max())
    return span >= peak - min(QUIET_DB, QUIET_SHARE * max(0.0, peak - floor))


def _is_spill(sound: tuple[int, int], pause: int) -> bool:
    return sound[1] - sound[0] < SPILL_FRAMES and pause >= PAUSE_FRAMES


def _sounds(is_loud: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the runs of true as (first, behind)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], is_loud, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _loudness(audio: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the loudness of every 10 ms in decibels; digital silence is -120."""
    whole = len(audio) // FRAME * FRAME
    power = np.square(audio[:whole].reshape(-1, FRAME), dtype=np.float64).mean(axis=1)
    decibels: NDArray[np.float64] = 10 * np.log10(np.maximum(power, 1e-12))
    return decibels
