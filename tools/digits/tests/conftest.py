"""Let the tests import the tools, and give them a voice whose clips are tones."""

from __future__ import annotations

from pathlib import Path
import sys

import numpy as np
import pytest

sys.path[:0] = [str(Path(__file__).parents[1])]

from recordings import SAMPLE_RATE, Audio, Voice  # noqa: E402  # found through the line above


def tone(hertz: float, seconds: float) -> Audio:
    """Return half-scale sine samples."""
    time = np.arange(int(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    return (0.5 * np.sin(2 * np.pi * hertz * time)).astype(np.float32)


@pytest.fixture
def voice() -> Voice:
    """Return a speaker whose digit d is a tone of 300 + 100 d Hz, 0.3 s long."""
    return Voice(name="tones", takes=tuple((tone(300 + 100 * digit, 0.3),) for digit in range(10)))
