"""Whisper's languages, and the repositories behind its size aliases in each weight format."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

DIGITS = "digits"  #: the bundled checkpoint

# In the order of their tokens (openai/whisper, whisper/tokenizer.py); "yue" came with large-v3.
LANGUAGES = (
    "en", "zh", "de", "es", "ru", "ko", "fr", "ja", "pt", "tr", "pl", "ca", "nl", "ar", "sv", "it",
    "id", "hi", "fi", "vi", "he", "uk", "el", "ms", "cs", "ro", "da", "hu", "ta", "no", "th", "ur",
    "hr", "bg", "lt", "la", "mi", "ml", "cy", "sk", "te", "fa", "lv", "bn", "sr", "az", "sl", "kn",
    "et", "mk", "br", "eu", "is", "hy", "ne", "mn", "bs", "kk", "sq", "sw", "gl", "mr", "pa", "si",
    "km", "sn", "yo", "so", "af", "oc", "ka", "be", "tg", "sd", "gu", "am", "yi", "lo", "uz", "fo",
    "ht", "ps", "tk", "nn", "mt", "sa", "lb", "my", "bo", "tl", "mg", "as", "tt", "haw", "ln", "ha",
    "ba", "jw", "su", "yue",
)  # fmt: skip

_SIZES = (
    "tiny", "tiny.en", "base", "base.en", "small", "small.en", "medium", "medium.en", "large-v1",
    "large-v2", "large-v3",
)  # fmt: skip
_DISTILLED = ("small.en", "medium.en", "large-v2", "large-v3")

# The repositories that faster-whisper itself uses (faster_whisper/utils.py).
FASTER_WHISPER_MODELS = {
    DIGITS: "bundled",
    **{size: f"Systran/faster-whisper-{size}" for size in _SIZES},
    "large": "Systran/faster-whisper-large-v3",
    "turbo": "mobiuslabsgmbh/faster-whisper-large-v3-turbo",
    "large-v3-turbo": "mobiuslabsgmbh/faster-whisper-large-v3-turbo",
    **{f"distil-{size}": f"Systran/faster-distil-whisper-{size}" for size in _DISTILLED},
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
    **{size: f"openai/whisper-{size}" for size in _SIZES},
    "large-v1": "openai/whisper-large",
    "large": "openai/whisper-large-v3",
    "turbo": "openai/whisper-large-v3-turbo",
    "large-v3-turbo": "openai/whisper-large-v3-turbo",
    **{f"distil-{size}": f"distil-whisper/distil-{size}" for size in _DISTILLED},
}

# Safetensors, whole or sharded; large-v3's second copy, in float32, has other names.
TRANSFORMERS_FILES = (
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "tokenizer.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-?????-of-?????.safetensors",
)

# The repositories of mlx-community; all names but those of the newest models end in "-mlx".
# mlx-community has no distil-small.en and no distil-large-v2.
MLX_MODELS = {
    DIGITS: "bundled",
    **{size: f"mlx-community/whisper-{size}-mlx" for size in _SIZES},
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

# Millions of parameters: those of OpenAI's checkpoints, and of distil-whisper's by their cards.
_MILLIONS = {
    "tiny": 37.8,
    "base": 72.6,
    "small": 241.7,
    "medium": 763.9,
    "turbo": 808.9,
    **dict.fromkeys(("large", "large-v1", "large-v2", "large-v3"), 1543.5),
    "distil-small": 166.1,
    "distil-medium": 394.4,
    **dict.fromkeys(("distil-large-v2", "distil-large-v3"), 756.4),
}
# OpenAI's own repositories have these in float32; every other checkpoint is in float16.
_FLOAT32 = ("tiny", "base", "small", "medium", "large-v1", "large-v2")


def model_sizes(models: Mapping[str, str]) -> dict[str, int]:
    """Return about how many bytes the checkpoints of *models* have."""
    sizes = {}
    for alias, repository in models.items():
        name = "turbo" if alias == "large-v3-turbo" else alias.removesuffix(".en")
        if name in _MILLIONS:
            is_float32 = repository.startswith("openai/") and name in _FLOAT32
            sizes[alias] = round(_MILLIONS[name] * (4e6 if is_float32 else 2e6))
    return sizes


def model_licences(models: Mapping[str, str]) -> dict[str, str]:
    """Return the licences that the model cards of OpenAI, Systran and distil-whisper name."""
    licences = {}
    for alias, repository in models.items():
        owner = repository.partition("/")[0]
        if owner in {"Systran", "mobiuslabsgmbh", "distil-whisper"} or "turbo" in alias:
            licences[alias] = "mit"
        elif owner == "openai":
            licences[alias] = "apache-2.0"
    return licences


# Names under which hosts serve Whisper with word times: api.openai.com (whisper-1) and
# api.groq.com/openai (the other two).  Other names are passed to the server unchanged.
HOSTED_MODELS = {
    "whisper-1": "hosted",
    "whisper-large-v3": "hosted",
    "whisper-large-v3-turbo": "hosted",
}
