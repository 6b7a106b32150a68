"""Model names: size aliases, the repositories they stand for, and the files of a model."""

from __future__ import annotations

DIGITS = "digits"  #: the bundled checkpoint

# Repositories in the original layout, which both torch and MLX load.  torch also loads the `-hf`
# repositories, by their full names.  The longer aliases are those of whisperlivekit.
MODELS = {
    DIGITS: "bundled",
    "0.6b": "Qwen/Qwen3-ASR-0.6B",
    "1.7b": "Qwen/Qwen3-ASR-1.7B",
    "qwen3-0.6b": "Qwen/Qwen3-ASR-0.6B",
    "qwen3-1.7b": "Qwen/Qwen3-ASR-1.7B",
    "qwen3-asr-0.6b": "Qwen/Qwen3-ASR-0.6B",
    "qwen3-asr-1.7b": "Qwen/Qwen3-ASR-1.7B",
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
