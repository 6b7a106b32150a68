"""Pure parts that online processors are put together from: numpy only, no I/O, no clock."""

from __future__ import annotations

from wlk_core.streaming.alignatt import AlignAtt
from wlk_core.streaming.audio_buffer import AudioBuffer
from wlk_core.streaming.energy import EnergyContour, lowest_energy_sample
from wlk_core.streaming.local_agreement import LocalAgreement, split_overlap
from wlk_core.streaming.log_mel import LogMel, mel_filters
from wlk_core.streaming.marked_text import MarkedText, Said, Vocabulary
from wlk_core.streaming.repetition import Loop, find_loop
from wlk_core.streaming.speculative import StepModel, TokenPrediction, speculative_decode
from wlk_core.streaming.tekken import Tekken
from wlk_core.streaming.timeline import Timeline
from wlk_core.streaming.words import Word, joined, needs_space

__all__ = [
    "AlignAtt",
    "AudioBuffer",
    "EnergyContour",
    "LocalAgreement",
    "LogMel",
    "Loop",
    "MarkedText",
    "Said",
    "StepModel",
    "Tekken",
    "Timeline",
    "TokenPrediction",
    "Vocabulary",
    "Word",
    "find_loop",
    "joined",
    "lowest_energy_sample",
    "mel_filters",
    "needs_space",
    "speculative_decode",
    "split_overlap",
]
