"""The declarations that both backends share; importing this module brings no numpy."""

from __future__ import annotations

from typing import Any

from wlk_core import BackendSpec, Option

__all__ = ["DTYPE", "MINI", "STREAM_OPTIONS", "voxtral_spec"]

MINI = "mistralai/Voxtral-Mini-4B-Realtime-2602"

DTYPE = Option(
    name="dtype",
    default="auto",
    choices=("auto", "float32", "bfloat16", "float16"),
    help="arithmetic of the model",
)

STREAM_OPTIONS = (
    Option(
        name="delay_ms",
        type=int,
        default=None,
        minimum=80,
        maximum=2400,
        help="how long after its audio the text is emitted, a multiple of 80; by default the delay "
        "of the checkpoint, 480 in the published one",
        scope="stream",
    ),
    Option(
        name="draft_steps",
        type=int,
        default=8,
        minimum=1,
        maximum=16,
        help="steps of a backlog decoded in one forward pass, with silence as the draft; 1 decodes "
        "each step alone",
        scope="stream",
    ),
)


def voxtral_spec(*, options: tuple[Option, ...], **fields: Any) -> BackendSpec:
    """Return the spec of a Voxtral backend: *options* of the backend and what differs."""
    return BackendSpec(
        api=1,
        options=(*options, *STREAM_OPTIONS),
        capabilities=(
            "hypothesis",
            "word-times",
            "probabilities",
            "speaker-turns",
            "bounded-state",
        ),
        max_delay=3.0,  # the longest delay, and the pieces of a word
        bounds={"wer": 0.10, "word_start_median": 0.10, "word_start_bias": 0.10},
        **fields,
    )
