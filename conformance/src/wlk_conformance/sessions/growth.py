"""What a stream costs, measured from outside instead of read from its counters."""

from __future__ import annotations

import gc
from itertools import pairwise
import tracemalloc
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_core import SAMPLE_RATE

if TYPE_CHECKING:
    from wlk_conformance.backend_under_test import BackendUnderTest

__all__ = ["Growth", "measure_growth"]

ROUNDS = 7
FIRST = 3  # rounds until caches and buffers are full
SECONDS = 20.0  # of a round, without a pause between rounds
SLOW_SECONDS = 8.0  # the same on an engine that takes time


@attrs.frozen
class Growth:
    """Bytes that each of the last rounds left allocated, and the engine calls of every round."""

    seconds: float
    bytes_left: tuple[int, ...]
    engine_calls: tuple[int, ...]

    @property
    def is_short(self) -> bool:
        """Whether the rounds are those of an engine that takes time."""
        return self.seconds < SECONDS


def measure_growth(under_test: BackendUnderTest) -> Growth:
    """Feed the same audio in rounds to one stream, which keeps nothing of what it returns."""
    is_coded = under_test.speech_source.kind == "coded"
    seconds = SECONDS if is_coded else SLOW_SECONDS
    return under_test.cached(f"growth of {seconds} s", lambda: _measure(under_test, seconds))


def _measure(under_test: BackendUnderTest, seconds: float) -> Growth:
    stimulus = under_test.speech(round(seconds * 1.2), seed=23, gap=(0.2, 0.7), tail=0.0)
    audio = np.zeros(round(seconds * SAMPLE_RATE), dtype=np.float32)
    audio[: len(stimulus.audio)] = stimulus.audio[: len(audio)]
    stream = under_test.backend.create_processor(**under_test.stream_options)
    counter = under_test.engine_calls
    held, calls = [], [0 if counter is None else counter.count]
    was_tracing = tracemalloc.is_tracing()
    tracemalloc.start(1)
    try:
        for _ in range(ROUNDS):
            for first in range(0, len(audio), SAMPLE_RATE):
                stream.insert_audio_chunk(audio[first : first + SAMPLE_RATE])
                while stream.has_backlog:
                    stream.process_iter()
                under_test.touch()
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
            calls.append(0 if counter is None else counter.count)
    finally:
        if not was_tracing:
            tracemalloc.stop()
        stream.close()
    left = tuple(after - before for before, after in pairwise(held[FIRST:]))
    made = tuple(after - before for before, after in pairwise(calls))
    return Growth(seconds, left, () if counter is None else made)
