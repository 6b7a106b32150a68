"""Size aliases and the repositories that hold them: one layout for both engines."""

from __future__ import annotations

__all__ = ["DIGITS", "FILES", "MODELS"]

DIGITS = "digits"  #: the bundled checkpoint

# The original layout, which torch and MLX both load; the `-hf` repositories load on torch too, by
# their full names.
MODELS = {
    DIGITS: "bundled",
    "0.6b": "Qwen/Qwen3-ASR-0.6B",
    "1.7b": "Qwen/Qwen3-ASR-1.7B",
}

FILES = (
    "config.json",
    "generation_config.json",
    "merges.txt",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-?????-of-?????.safetensors",
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
)
