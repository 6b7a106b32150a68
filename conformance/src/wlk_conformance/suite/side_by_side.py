"""Streams side by side: their speech, calls made at once, and the same speech alone."""

from __future__ import annotations

from functools import partial
import threading
from typing import TYPE_CHECKING

from wlk_conformance.compare import check_same
from wlk_conformance.threaded_call import ThreadedCall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.stimuli import Stimulus
    from wlk_conformance.testing import StreamDriver

__all__ = ["STREAMS", "check_solo", "different_speech", "make_together"]

STREAMS = 4
LIMIT = 120.0  # seconds after which a thread counts as stuck


def different_speech(wlk: BackendUnderTest) -> list[Stimulus]:
    """Return speech of different lengths and words for each of STREAMS streams."""
    return [wlk.speech(4 + index, seed=50 + index) for index in range(STREAMS)]


def check_solo(
    wlk: BackendUnderTest, stimuli: Sequence[Stimulus], drivers: Sequence[StreamDriver], how: str
) -> None:
    """Compare each stream with a run of the same speech alone; *how* it ran is for the message."""
    for number, (stimulus, driver) in enumerate(zip(stimuli, drivers, strict=True), 1):
        expected = wlk.require_tokens(wlk.solo(stimulus), stimulus)
        what = f"stream {number} of {len(stimuli)}, {how}, against alone"
        check_same(expected, driver.tokens, what=what, tolerance=0.1)


def make_together(calls: Sequence[Callable[[], object]]) -> None:
    """Make each call on a fresh thread, all at once; raise the first exception of a call."""
    begin = threading.Barrier(len(calls))

    def make(call: Callable[[], object]) -> None:
        begin.wait(LIMIT)
        call()

    threaded = [ThreadedCall(partial(make, call)) for call in calls]
    assert all(calling.wait(LIMIT) for calling in threaded), "a call did not return"
    for calling in threaded:
        calling.raise_error()
