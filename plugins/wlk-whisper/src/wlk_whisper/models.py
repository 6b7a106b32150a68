"""Size aliases and the repositories of each, one table for each format of weights."""

from __future__ import annotations

__all__ = [
    "DIGITS",
    "FASTER_WHISPER_FILES",
    "FASTER_WHISPER_MODELS",
    "HOSTED_MODELS",
    "MLX_FILES",
    "MLX_MODELS",
    "TRANSFORMERS_FILES",
    "TRANSFORMERS_MODELS",
]

DIGITS = "digits"  #: the bundled checkpoint

# The repositories faster-whisper itself names (faster_whisper/utils.py).
FASTER_WHISPER_MODELS = {
    DIGITS: "bundled",
    "tiny": "Systran/faster-whisper-tiny",
    "tiny.en": "Systran/faster-whisper-tiny.en",
    "base": "Systran/faster-whisper-base",
    "base.en": "Systran/faster-whisper-base.en",
    "small": "Systran/faster-whisper-small",
    "small.en": "Systran/faster-whisper-small.en",
    "medium": "Systran/faster-whisper-medium",
    "medium.en": "Systran/faster-whisper-medium.en",
    "large-v1": "Systran/faster-whisper-large-v1",
    "large-v2": "Systran/faster-whisper-large-v2",
    "large-v3": "Systran/faster-whisper-large-v3",
    "large": "Systran/faster-whisper-large-v3",
    "turbo": "mobiuslabsgmbh/faster-whisper-large-v3-turbo",
    "large-v3-turbo": "mobiuslabsgmbh/faster-whisper-large-v3-turbo",
    "distil-small.en": "Systran/faster-distil-whisper-small.en",
    "distil-medium.en": "Systran/faster-distil-whisper-medium.en",
    "distil-large-v2": "Systran/faster-distil-whisper-large-v2",
    "distil-large-v3": "Systran/faster-distil-whisper-large-v3",
}

FASTER_WHISPER_FILES = (
    "config.json",
    "preprocessor_config.json",
    "model.bin",
    "tokenizer.json",
    "vocabulary.*",
)

# OpenAI's own checkpoints, and distil-whisper's.
TRANSFORMERS_MODELS = {
    DIGITS: "bundled",
    "tiny": "openai/whisper-tiny",
    "tiny.en": "openai/whisper-tiny.en",
    "base": "openai/whisper-base",
    "base.en": "openai/whisper-base.en",
    "small": "openai/whisper-small",
    "small.en": "openai/whisper-small.en",
    "medium": "openai/whisper-medium",
    "medium.en": "openai/whisper-medium.en",
    "large-v1": "openai/whisper-large",
    "large-v2": "openai/whisper-large-v2",
    "large-v3": "openai/whisper-large-v3",
    "large": "openai/whisper-large-v3",
    "turbo": "openai/whisper-large-v3-turbo",
    "large-v3-turbo": "openai/whisper-large-v3-turbo",
    "distil-small.en": "distil-whisper/distil-small.en",
    "distil-medium.en": "distil-whisper/distil-medium.en",
    "distil-large-v2": "distil-whisper/distil-large-v2",
    "distil-large-v3": "distil-whisper/distil-large-v3",
}

# Safetensors, whole or in shards; large-v3 has a second copy in float32 under another name.
TRANSFORMERS_FILES = (
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "tokenizer.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-?????-of-?????.safetensors",
)

# The repositories of mlx-community, where the name of every model but the newest ends in "-mlx".
# mlx-community has no distil-small.en and no distil-large-v2.
MLX_MODELS = {
    DIGITS: "bundled",
    "tiny": "mlx-community/whisper-tiny-mlx",
    "tiny.en": "mlx-community/whisper-tiny.en-mlx",
    "base": "mlx-community/whisper-base-mlx",
    "base.en": "mlx-community/whisper-base.en-mlx",
    "small": "mlx-community/whisper-small-mlx",
    "small.en": "mlx-community/whisper-small.en-mlx",
    "medium": "mlx-community/whisper-medium-mlx",
    "medium.en": "mlx-community/whisper-medium.en-mlx",
    "large-v1": "mlx-community/whisper-large-v1-mlx",
    "large-v2": "mlx-community/whisper-large-v2-mlx",
    "large-v3": "mlx-community/whisper-large-v3-mlx",
    "large": "mlx-community/whisper-large-v3-mlx",
    "turbo": "mlx-community/whisper-large-v3-turbo",
    "large-v3-turbo": "mlx-community/whisper-large-v3-turbo",
    "distil-medium.en": "mlx-community/distil-whisper-medium.en",
    "distil-large-v3": "mlx-community/distil-whisper-large-v3",
}

MLX_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "weights.safetensors",
    "weights.npz",
)

# Names under which hosts serve Whisper with word times: api.openai.com (whisper-1) and
# api.groq.com/openai (the other two).  Other names are passed to the endpoint as they are.
HOSTED_MODELS = {
    "whisper-1": "hosted",
    "whisper-large-v3": "hosted",
    "whisper-large-v3-turbo": "hosted",
}
