"""Declare what both backends share, without importing numpy."""

from __future__ import annotations

import platform
from typing import Any

from wlk_core.plugins import BackendSpec, Option, standard_options

IS_APPLE_SILICON = (platform.system(), platform.machine()) == ("Darwin", "arm64")
MINI = "mistralai/Voxtral-Mini-4B-Realtime-2602"
DTYPES = ("float32", "bfloat16", "float16")


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
        options=(
            *options,
            standard_options.CACHE_DIR,
            standard_options.DELAY_MS,
            standard_options.DRAFT_STEPS,
        ),
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
