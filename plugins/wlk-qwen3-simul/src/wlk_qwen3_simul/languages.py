"""The languages of Qwen3-ASR: the codes users pass, and the names the model emits."""

from __future__ import annotations

from wlk_core.languages import NAMES

# Model card of Qwen/Qwen3-ASR; ISO 639-1 codes, or ISO 639-3 for languages without one.
_SUPPORTED = (
    "ar", "cs", "da", "de", "el", "en", "es", "fa", "fi", "fil", "fr", "hi", "hu", "id", "it",
    "ja", "ko", "mk", "ms", "nl", "pl", "pt", "ro", "ru", "sv", "th", "tr", "vi", "yue", "zh",
)  # fmt: skip
LANGUAGES: dict[str, str] = {code: NAMES[code] for code in _SUPPORTED}
_CODES = {name.casefold(): code for code, name in LANGUAGES.items()}


def code_of(name: str) -> str | None:
    """Return the code of the language that the model calls *name*, or None if it is unknown."""
    return _CODES.get(name.strip().casefold())
