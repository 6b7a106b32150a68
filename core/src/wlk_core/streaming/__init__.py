"""Building blocks of online processors: pure functions and state, numpy only, no I/O."""

from __future__ import annotations

from wlk_core.streaming.energy import (
    EnergyContour,
    background_level,
    loud_frames,
    loudness,
    lowest_energy_sample,
    true_runs,
)
from wlk_core.streaming.log_mel import LogMel, mel_filters
from wlk_core.streaming.policies import AlignAtt, count_agreed, split_overlap
from wlk_core.streaming.repetition import Loop, find_loop, keep_spoken_repetitions
from wlk_core.streaming.window import (
    PROMPT_CHARACTERS,
    AudioBuffer,
    BoundedWindow,
    words_in_order,
)
from wlk_core.streaming.words import Word, is_unspaced, joined, needs_space

__all__ = [
    "PROMPT_CHARACTERS",
    "AlignAtt",
    "AudioBuffer",
    "BoundedWindow",
    "EnergyContour",
    "LogMel",
    "Loop",
    "Word",
    "background_level",
    "count_agreed",
    "find_loop",
    "is_unspaced",
    "joined",
    "keep_spoken_repetitions",
    "loud_frames",
    "loudness",
    "lowest_energy_sample",
    "mel_filters",
    "needs_space",
    "split_overlap",
    "true_runs",
    "words_in_order",
]
