"""Pure parts that online processors are put together from: numpy only, no I/O, no clock."""

from __future__ import annotations

from wlk_core.streaming.alignatt import AlignAtt, AlignedToken, frames_in_order
from wlk_core.streaming.audio_buffer import AudioBuffer
from wlk_core.streaming.drafting import Choice, StepModel, decode_steps
from wlk_core.streaming.local_agreement import LocalAgreement, split_overlap
from wlk_core.streaming.log_mel import LogMel
from wlk_core.streaming.onsets import Onsets
from wlk_core.streaming.quiet import quietest_sample
from wlk_core.streaming.repetition import Loop, find_loop
from wlk_core.streaming.timeline import Timeline
from wlk_core.streaming.words import Word, joined, needs_space

__all__ = [
    "AlignAtt",
    "AlignedToken",
    "AudioBuffer",
    "Choice",
    "LocalAgreement",
    "LogMel",
    "Loop",
    "Onsets",
    "StepModel",
    "Timeline",
    "Word",
    "decode_steps",
    "find_loop",
    "frames_in_order",
    "joined",
    "needs_space",
    "quietest_sample",
    "split_overlap",
]
