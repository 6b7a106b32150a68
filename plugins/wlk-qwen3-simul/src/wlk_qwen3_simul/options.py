"""The options of both backends, which differ in devices and number formats only."""

from __future__ import annotations

import attrs

from wlk_core.plugins import Option, standard_options

__all__ = ["OPTIONS", "TORCH_DEVICES"]

TORCH_DEVICES = ("auto", "cpu", "cuda", "mps")

OPTIONS = (
    attrs.evolve(
        standard_options.ALIGNMENT_HEADS,
        help="decoder heads that attend to the spoken word: predict:layer.head,layer.head, or "
        "self:..., or a file written by wlk_qwen3_simul.detect_heads; auto takes those known for "
        "the model",
    ),
    standard_options.CACHE_DIR,
    attrs.evolve(
        standard_options.PROMPT,
        help="text of the system turn before the audio: names, spelling",
    ),
    standard_options.KEYTERMS,
    standard_options.TICK_SECONDS,
    attrs.evolve(
        standard_options.BUFFER_SECONDS,
        minimum=8.0,
        help="length in seconds from which the buffer is cut after committed words, with "
        "policy=alignatt by whole windows of 8 s; auto takes what the checkpoint declares, else 12",
    ),
    Option(
        name="max_new_tokens",
        type=int,
        default=256,
        minimum=16,
        maximum=4096,
        help="tokens one hypothesis may have beyond committed text, however long its audio",
        scope="stream",
    ),
    standard_options.BORDER_SECONDS,
    standard_options.REWIND_SECONDS,
)
