"""The languages of Qwen3-ASR: codes for users, and the names that the model writes."""

from __future__ import annotations

from wlk_core.languages import NAMES

# Model card of Qwen/Qwen3-ASR; codes are ISO 639-1, and ISO 639-3 where that has none.
_SUPPORTED = (
    "ar", "cs", "da", "de", "el", "en", "es", "fa", "fi", "fil", "fr", "hi", "hu", "id", "it",
    "ja", "ko", "mk", "ms", "nl", "pl", "pt", "ro", "ru", "sv", "th", "tr", "vi", "yue", "zh",
)  # fmt: skip
LANGUAGES: dict[str, str] = {code: NAMES[code] for code in _SUPPORTED}
_CODES = {name.casefold(): code for code, name in LANGUAGES.items()}


def code_of(name: str) -> str | None:
    """Return the code of the language that the model calls *name*; None where it is unknown."""
    return _CODES.get(name.strip().casefold())
