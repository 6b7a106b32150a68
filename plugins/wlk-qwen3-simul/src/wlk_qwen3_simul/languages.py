"""The languages of Qwen3-ASR: codes as users give them, names as the model writes them."""

from __future__ import annotations

__all__ = ["LANGUAGES", "code_of"]

# Qwen/Qwen3-ASR, model card; codes are ISO 639-1, and 639-3 where that has none.
LANGUAGES: dict[str, str] = {
    "ar": "Arabic",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "fa": "Persian",
    "fi": "Finnish",
    "fil": "Filipino",
    "fr": "French",
    "hi": "Hindi",
    "hu": "Hungarian",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "mk": "Macedonian",
    "ms": "Malay",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sv": "Swedish",
    "th": "Thai",
    "tr": "Turkish",
    "vi": "Vietnamese",
    "yue": "Cantonese",
    "zh": "Chinese",
}
_CODES = {name.casefold(): code for code, name in LANGUAGES.items()}


def code_of(name: str) -> str | None:
    """Return the code of a language as the model names it; None for "None" and unknown names."""
    return _CODES.get(name.strip().casefold())
