"""The unit of a Voxtral stream: a step of 80 ms, which is one token id and eight mel frames."""

from __future__ import annotations

from wlk_core.streaming.log_mel import FRAME_SAMPLES

__all__ = ["STEP_FRAMES", "STEP_MS", "STEP_SAMPLES", "STEP_SECONDS"]

STEP_MS = 80  # 12.5 token ids a second (arXiv:2602.11298)
STEP_SECONDS = 0.08
STEP_SAMPLES = 1280  # at 16 kHz
STEP_FRAMES = STEP_SAMPLES // FRAME_SAMPLES  # mel frames of 10 ms
