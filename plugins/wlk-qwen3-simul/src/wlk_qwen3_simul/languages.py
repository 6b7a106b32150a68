"""The languages of Qwen3-ASR: codes for users, and the names that the model writes."""

from __future__ import annotations

__all__ = ["LANGUAGES", "code_of"]

# Model card of Qwen/Qwen3-ASR; codes are ISO 639-1, and ISO 639-3 where that has none.
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
    """Return the code of the language that the model calls *name*; None where it is unknown."""
    return _CODES.get(name.strip().casefold())
