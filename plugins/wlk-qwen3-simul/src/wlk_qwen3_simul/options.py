"""The options of the two backends, which differ in devices and number formats only."""

from __future__ import annotations

from wlk_core import Option

__all__ = ["ALIGNATT_OPTIONS", "OPTIONS", "TORCH_DEVICES", "device_option", "dtype_option"]

TORCH_DEVICES = ("auto", "cpu", "cuda", "mps")

ALIGNATT_OPTIONS = (
    Option(
        name="border_seconds",
        type=float,
        default=0.5,
        minimum=0.0,
        maximum=5.0,
        help="seconds at the end of the audio that no final word attends to (policy=alignatt)",
        scope="stream",
    ),
    Option(
        name="rewind_seconds",
        type=float,
        default=4.0,
        minimum=0.04,
        maximum=30.0,
        help="seconds that attention may jump back before the text counts as astray "
        "(policy=alignatt)",
        scope="stream",
    ),
)

OPTIONS = (
    Option(
        name="alignment_heads",
        default=None,
        help="decoder heads that attend to the spoken word: predict:layer.head,layer.head, or "
        "self:..., or a file written by wlk_qwen3_simul.detect_heads; by default those known for "
        "the model",
    ),
    Option(name="cache_dir", default=None, help="directory of pulled models"),
    Option(
        name="init_prompt",
        default=None,
        help="text of the system turn before the audio: hotwords, names, spelling",
        scope="stream",
    ),
    Option(
        name="tick_seconds",
        type=float,
        default=1.0,
        minimum=0.2,
        maximum=10.0,
        help="seconds of audio between two hypotheses",
        scope="stream",
    ),
    Option(
        name="buffer_seconds",
        type=float,
        default=None,
        minimum=8.0,
        maximum=25.0,
        help="length from which the buffer is cut after committed words, with policy=alignatt by "
        "whole windows of 8 s; by default that of the checkpoint, else 12",
        scope="stream",
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
    *ALIGNATT_OPTIONS,
)


def device_option(*choices: str) -> Option:
    """Return the device option of one framework."""
    return Option(name="device", default="auto", choices=choices, help="device of the model")


def dtype_option(*choices: str) -> Option:
    """Return the dtype option of one framework; its default off the CPU comes last."""
    return Option(
        name="dtype",
        default="auto",
        choices=choices,
        help="number format of the model; by default that of the checkpoint, else float32 on the "
        f"CPU and {choices[-1]} elsewhere",
    )
