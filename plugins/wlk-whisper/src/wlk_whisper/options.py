"""Options of the Whisper backends beside the standard ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import Option

if TYPE_CHECKING:
    from wlk_core.plugins import StreamConfig

__all__ = ["AUDIO_CONTEXT", "LORA_PATH", "MAX_CONTEXT_TOKENS", "beam_size"]

LONG_FORM_BEAM_SIZE = 5  # Whisper's own for recordings

AUDIO_CONTEXT = Option(
    name="audio_context",
    choices=("padded", "full", "fitted"),
    is_auto_allowed=True,
    help="encode windows of 30 s (full), the buffer alone, for models trained on such windows "
    "(fitted), or the buffer with the encoder output of silence after it (padded); auto takes "
    "fitted where the checkpoint allows it, else padded",
    scope="stream",
)

LORA_PATH = Option(
    name="lora_path",
    help="directory of a LoRA adapter (peft) that is merged into the model",
)

MAX_CONTEXT_TOKENS = Option(
    name="max_context_tokens",
    type=int,
    # Committed words are forced while their audio is in the buffer.  Earlier text costs its
    # positions at every tick, and no encoder frames: of 465 words of English with tiny.en, 82 were
    # wrong without it, 78 with it or with a buffer of 12 s, and 70 in whole recordings.
    default=50,
    minimum=0,
    maximum=223,
    help="most tokens of earlier text in the prompt; earlier text has at most 200 characters, so "
    "values above 50 change nothing in English, and prompt and earlier text share 223 tokens",
    scope="stream",
    policies=("alignatt",),
)


def beam_size(config: StreamConfig) -> int:
    """Return the beam size of a stream; auto is greedy decoding where words are decoded again."""
    auto = LONG_FORM_BEAM_SIZE if config.policy == "long-form" else 1
    return config.options["beam_size"] or auto
