"""Training batches of one window length, drawn in a process of their own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from queue import Empty, Full
from typing import TYPE_CHECKING

from attrs import frozen
from features import MELS, disturb, fit, log_mel
import numpy as np
from rng import happens
from targets import POSITIONS_PER_SECOND, draw_target
from vocabulary import END_OF_TEXT, FIRST_TIMESTAMP, NO_SPEECH, compact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.queues import Queue

    from mixing import Mixer, Mixture
    from numpy.typing import NDArray

IGNORED = -100
POSITIONS = 1500  # of a 30 s window
FIRST_COURSE = 0.4  # share of a course from scratch that sees short windows only
SECOND_COURSE = 0.72  # and share until which long ones are rare
_QUEUED = 6
_PATIENCE_SECONDS = 60.0
_SHORTEST_SECONDS = 0.4


@frozen(kw_only=True)
class Draft:
    """What a decoder should write in U rows for B utterances, and where it should look."""

    inputs: NDArray[np.int64]  #: B, U: compact ids
    outputs: NDArray[np.int64]  #: B, U: compact ids or IGNORED
    looks: NDArray[np.float32]  #: B, U, T: where a row should attend; all zero for anywhere
    looks_back: NDArray[np.float32]  #: B, U, T: the word before, for the head that keeps the place


@frozen(kw_only=True)
class Batch:
    """B utterances of T encoder positions, and what to write with and without timestamps."""

    features: NDArray[np.float32]  #: B, 80, 2 T
    digits: NDArray[np.int64]  #: B, T: the digit at each position plus one, 0 for none
    offset: int  #: position of the first frame: windows need not begin at 0
    timed: Draft
    untimed: Draft


def draw_window(progress: float, rng: np.random.Generator, *, from_scratch: bool) -> float:
    """Return a window length in seconds; a course from scratch begins with short ones."""
    if from_scratch and progress < FIRST_COURSE:
        return rng.uniform(3, 6) if happens(0.93, rng) else rng.uniform(6, 12)
    shares = (0.5, 0.42) if from_scratch and progress < SECOND_COURSE else (0.28, 0.37)
    kind = rng.random()
    if kind < shares[0]:
        return rng.uniform(1.5, 7)
    if kind < sum(shares):
        return rng.uniform(7, 17)
    return 30.0 if happens(0.5, rng) else rng.uniform(17, 30)


def draw_batch(mixer: Mixer, seconds: float, size: int) -> Batch:
    """Draw mixtures for windows of one length; a fifth of batches begin somewhere inside 30 s."""
    rng = mixer.rng
    positions = min(round(seconds * POSITIONS_PER_SECOND), POSITIONS)
    offset = int(rng.integers(0, POSITIONS - positions + 1)) if happens(0.2, rng) else 0
    features = np.zeros((size, MELS, 2 * positions), np.float32)
    digits = np.zeros((size, positions), np.int64)
    mixtures = [mixer.draw(_content(positions / POSITIONS_PER_SECOND, rng)) for _ in range(size)]
    for index, mixture in enumerate(mixtures):
        mel = disturb(log_mel(mixture.audio), rng)
        features[index] = fit(mel, 2 * positions, zero_padded=happens(0.5, rng))
        _mark(digits[index], mixture)
    timed, untimed = (
        _draft(mixtures, positions, offset, rng, with_timestamps=with_timestamps)
        for with_timestamps in (True, False)
    )
    return Batch(features=features, digits=digits, offset=offset, timed=timed, untimed=untimed)


def _content(seconds: float, rng: np.random.Generator) -> float:
    """Return how much of a window is audio: all of it, all but a little padding, or a part."""
    if happens(1 / 4, rng):
        return seconds
    if happens(2 / 3, rng):
        return max(seconds - rng.uniform(0.1, 2.0), _SHORTEST_SECONDS)
    return max(seconds * rng.uniform(0.1, 1.0), _SHORTEST_SECONDS)


def _mark(digits: NDArray[np.int64], mixture: Mixture) -> None:
    for word in mixture.words:
        first = int(word.start * POSITIONS_PER_SECOND)
        digits[first : max(int(word.end * POSITIONS_PER_SECOND), first + 1)] = word.digit + 1


def _draft(
    mixtures: Sequence[Mixture],
    positions: int,
    offset: int,
    rng: np.random.Generator,
    *,
    with_timestamps: bool,
) -> Draft:
    longest_prompt = 160 if happens(0.05, rng) else 24  # a batch is as slow as its longest text
    targets = [
        draw_target(
            mixture, positions, rng, with_timestamps=with_timestamps, longest_prompt=longest_prompt
        )
        for mixture in mixtures
    ]
    size, rows = len(targets), max(len(target.tokens) for target in targets) - 1
    inputs = np.full((size, rows), compact(END_OF_TEXT))
    outputs = np.full((size, rows), IGNORED)
    looks = np.zeros((size, rows, positions), np.float32)
    looks_back = np.zeros((size, rows, positions), np.float32)
    for index, target in enumerate(targets):
        ids = np.array([compact(_moved(token, offset)) for token in target.tokens])
        inputs[index, : len(ids) - 1] = ids[:-1]
        outputs[index, target.first_row : len(ids) - 1] = ids[target.first_row + 1 :]
        if target.is_empty:
            outputs[index, target.first_row] = compact(NO_SPEECH)
        for look in target.looks:
            looks[index, look.row] = look.distribution
        for look in target.looks_back:
            looks_back[index, look.row] = look.distribution
    return Draft(inputs=inputs, outputs=outputs, looks=looks, looks_back=looks_back)


def _moved(token: int, offset: int) -> int:
    """Move a timestamp with its window."""
    return min(token + offset, FIRST_TIMESTAMP + POSITIONS) if token >= FIRST_TIMESTAMP else token


def produce(make_mixer: Callable[[], Mixer], draw: Callable[[Mixer], Batch]) -> Iterator[Batch]:
    """Yield batches drawn in another process, a few ahead.

    Raises:
        RuntimeError: the other process died.
    """
    context = multiprocessing.get_context("fork")
    queue: Queue[Batch] = context.Queue(_QUEUED)
    process = context.Process(target=_fill, args=(queue, make_mixer, draw), daemon=True)
    process.start()
    while process.is_alive():
        with contextlib.suppress(Empty):
            yield queue.get(timeout=_PATIENCE_SECONDS)
    raise RuntimeError(f"the process that draws batches ended with status {process.exitcode}")


def _fill(
    queue: Queue[Batch], make_mixer: Callable[[], Mixer], draw: Callable[[Mixer], Batch]
) -> None:
    parent = os.getppid()
    mixer = make_mixer()
    batch = draw(mixer)
    while os.getppid() == parent:
        with contextlib.suppress(Full):
            queue.put(batch, timeout=_PATIENCE_SECONDS)
            batch = draw(mixer)
