"""Declare what both backends share, without importing numpy."""

from __future__ import annotations

import platform
from typing import Any

from wlk_core.plugins import BackendSpec, Option, standard_options

IS_APPLE_SILICON = (platform.system(), platform.machine()) == ("Darwin", "arm64")
MINI = "mistralai/Voxtral-Mini-4B-Realtime-2602"
DTYPES = ("float32", "bfloat16", "float16")

DELAY_MS = Option(
    name="delay_ms",
    type=int,
    minimum=80,
    maximum=2400,
    is_auto_allowed=True,
    help="milliseconds by which text follows its audio, a multiple of 80; auto takes what the "
    "checkpoint declares",
    scope="stream",
    former_names=("delay", "transcription_delay_ms"),
)
DRAFT_STEPS = Option(
    name="draft_steps",
    type=int,
    default=8,
    minimum=1,
    maximum=16,
    help="steps of a backlog that one forward pass decodes speculatively; 1 decodes one at a time",
    scope="stream",
)


def voxtral_spec(
    *, options: tuple[Option, ...], is_batching: bool = False, **fields: Any
) -> BackendSpec:
    """
    Return the spec of a Voxtral backend from the *options* of its framework and other *fields*.

    `is_batching` declares that its network runs several streams in one pass.
    """
    batching = ("batching",) if is_batching else ()
    return BackendSpec(
        api=1,
        options=(*options, standard_options.CACHE_DIR, DELAY_MS, DRAFT_STEPS),
        capabilities=(
            "hypothesis",
            "word-times",
            "probabilities",
            "speaker-turns",
            "bounded-state",
            *batching,
        ),
        max_delay=3.0,  # the longest delay, plus the pieces of a word
        bounds={"wer": 0.10, "word_start_median": 0.10, "word_start_bias": 0.10},
        **fields,
    )
