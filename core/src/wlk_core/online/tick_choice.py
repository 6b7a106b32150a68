"""The tick of `tick_seconds=auto`: the smallest that the cost of a step leaves room for."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.online.recognizer import Recognizer

__all__ = ["PROBE_SECONDS", "TICKS", "measure_step", "smallest_tick"]

TICKS = (0.25, 0.5, 1.0, 2.0)  # seconds
# A step may take this share of a tick at most.  The rest is for the words, which the measured
# silence does not have, for the voice activity detection, and for other load of the machine.
SHARE = 0.25
PROBE_SECONDS = 8.0  # of silence in a step: between a short buffer and one before its cut
# Two hypotheses a quarter of a second apart agree on what a cut-off word made the model invent: 20
# words wrong in 30 digits with faster-whisper.
LEAST_AGREEMENT_TICK = 0.5
PROBES = 3  # the first one warms up


def smallest_tick(step_seconds: float, *, policy: str | None = None) -> float:
    """
    Return the smallest of TICKS that a step of *step_seconds* leaves room in, else the last.

    For LocalAgreement the smallest tick is LEAST_AGREEMENT_TICK.
    """
    least = LEAST_AGREEMENT_TICK if policy == "local-agreement" else TICKS[0]
    ticks = [tick for tick in TICKS if tick >= least]
    return next((tick for tick in ticks if step_seconds <= SHARE * tick), TICKS[-1])


def measure_step(
    make_recognizer: Callable[[], Recognizer], *, clock: Callable[[], float] = perf_counter
) -> float:
    """
    Return the seconds of the least disturbed step over PROBE_SECONDS of silence.

    Runs the model PROBES times.  What the engine raises is passed on.
    """
    silence = np.zeros(round(PROBE_SECONDS * SAMPLE_RATE), dtype=np.float32)
    seconds: list[float] = []
    for _ in range(PROBES):
        recognizer = make_recognizer()
        try:
            recognizer.feed(silence)
            start = clock()
            while recognizer.step(is_last=True) is not None:
                pass
            seconds.append(clock() - start)
        finally:
            recognizer.close()
    return min(seconds[1:])
