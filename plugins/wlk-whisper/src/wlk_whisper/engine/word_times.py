"""Corrections of the word times that the cross attention gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_core.streaming import Word

__all__ = ["drop_loop", "tighten_to_speech"]

FRAME_SAMPLES = 160  # 10 ms of energy
QUIET_DB = 35.0  # silence is this far below the loudest frame of a word ...
QUIET_SHARE = 0.7  # ... or, in noise, this share of the way down to the quietest frames
SPILL_FRAMES = 8  # a sound shorter than this at the edge of a span belongs to the neighbour ...
PAUSE_FRAMES = 5  # ... if a pause of at least this length separates it
SHIFT_FRAMES = 25  # how far a boundary within sound is moved to the nearest pause ...
GAP_FRAMES = 7  # ... of at least this length: longer than the closures inside most words
LOOP_WORDS = 3  # words without duration in a row: the decoder continues without audio


def drop_loop(words: Sequence[Word]) -> tuple[Word, ...]:
    """
    Return *words* up to where the decoder repeats itself without audio.

    Words of a repetition loop have no duration, because the alignment has no audio for them.
    """
    idle = 0
    for index, word in enumerate(words):
        idle = idle + 1 if word.end <= word.start else 0
        if idle == LOOP_WORDS:
            return tuple(words[: index - LOOP_WORDS + 1])
    return tuple(words)


def tighten_to_speech(words: Sequence[Word], audio: NDArray[np.float32]) -> tuple[Word, ...]:
    """
    Return *words* without the silence that the alignment included in their spans.

    The alignment determines where attention moves from one token to the next to about 0.2 s, and
    the pause between two words is inside the span of one of them.  A boundary within sound is
    therefore moved to a pause close by, if there is one.  Quiet frames at the edges of a span are
    removed, and so is a short sound at the very edge that a pause separates from the word, because
    it belongs to the neighbour.  In audio without pauses the times of the model remain.  *audio*,
    float32[n], is what the times count in.
    """
    decibels = _loudness(audio)
    if len(decibels) == 0:
        return tuple(words)
    floor = float(np.percentile(decibels, 10))
    moved = _move_boundaries(words, decibels, floor)
    return tuple(_tighten(word, decibels, floor) for word in moved)


def _move_boundaries(
    words: Sequence[Word], decibels: NDArray[np.float64], floor: float
) -> list[Word]:
    """Return *words* with each boundary that two of them share moved into a pause nearby."""
    moved = list(words)
    reach = SHIFT_FRAMES + GAP_FRAMES  # includes a pause that begins at the limit
    for index in range(1, len(moved)):
        before, after = moved[index - 1], moved[index]
        boundary = _frame(after.start)
        if after.start - before.end > FRAME_SAMPLES / SAMPLE_RATE:
            continue  # the model itself found a pause
        first = max(_frame(before.middle), boundary - reach)
        stop = min(_frame(after.middle), boundary + reach)
        pauses = _runs(~_is_loud(decibels[first:stop], floor))
        pauses = [p for p in pauses if p[1] - p[0] >= GAP_FRAMES]
        if not pauses or any(a <= boundary - first <= b for a, b in pauses):
            continue
        nearest = min(
            pauses, key=lambda p: min(abs(p[0] + first - boundary), abs(p[1] + first - boundary))
        )
        time = (first + (nearest[0] + nearest[1]) // 2) * FRAME_SAMPLES / SAMPLE_RATE
        moved[index - 1] = attrs.evolve(before, end=time)
        moved[index] = attrs.evolve(after, start=time)
    return moved


def _tighten(word: Word, decibels: NDArray[np.float64], floor: float) -> Word:
    first, stop = _frame(word.start), _frame(word.end)
    span = decibels[first:stop]
    if len(span) == 0:
        return word
    sounds = _runs(_is_loud(span, floor))
    if len(sounds) > 1 and sounds[0][0] == 0 and _is_spill(sounds[0], sounds[1][0] - sounds[0][1]):
        sounds = sounds[1:]
    if (
        len(sounds) > 1
        and sounds[-1][1] == len(span)
        and _is_spill(sounds[-1], sounds[-1][0] - sounds[-2][1])
    ):
        sounds = sounds[:-1]
    start = max(word.start, (first + sounds[0][0]) * FRAME_SAMPLES / SAMPLE_RATE)
    end = min(word.end, (first + sounds[-1][1]) * FRAME_SAMPLES / SAMPLE_RATE)
    return attrs.evolve(word, start=start, end=max(start, end))


def _frame(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE / FRAME_SAMPLES)


def _is_loud(span: NDArray[np.float64], floor: float) -> NDArray[np.bool_]:
    if len(span) == 0:
        return np.zeros(0, dtype=np.bool_)
    peak = float(span.max())
    return span >= peak - min(QUIET_DB, QUIET_SHARE * max(0.0, peak - floor))


def _is_spill(sound: tuple[int, int], pause: int) -> bool:
    return sound[1] - sound[0] < SPILL_FRAMES and pause >= PAUSE_FRAMES


def _runs(is_true: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the runs of true values as (first, stop)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], is_true, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _loudness(audio: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the loudness of every 10 ms in decibels; digital silence is -120."""
    whole = len(audio) // FRAME_SAMPLES * FRAME_SAMPLES
    power = np.square(audio[:whole].reshape(-1, FRAME_SAMPLES), dtype=np.float64).mean(axis=1)
    decibels: NDArray[np.float64] = 10 * np.log10(np.maximum(power, 1e-12))
    return decibels
