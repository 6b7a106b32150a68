"""The languages of Nemotron 3.5 ASR: the codes users pass, and the locales in the model's tags."""

from __future__ import annotations

from wlk_core.languages import NAMES, find_language

#: Model card of nvidia/nemotron-3.5-asr-streaming-0.6b: 40 locales of these languages.
LANGUAGES = (
    "ar", "bg", "cs", "da", "de", "el", "en", "es", "et", "fi", "fr", "he", "hi", "hr", "hu", "it",
    "ja", "ko", "lt", "lv", "mt", "nl", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sv", "th", "tr",
    "uk", "vi", "zh",
)  # fmt: skip
_NORWEGIAN = ("nb", "nn")  # written forms, each with its own locale in the model


def code_of(locale: str) -> str | None:
    """
    Return the language code of a locale, or None if the model card does not name the language.

    >>> [code_of(locale) for locale in ("en-US", "nb-NO", "haw-US")]
    ['en', 'no', None]
    """
    code = "no" if locale.partition("-")[0] in _NORWEGIAN else find_language(locale, LANGUAGES)
    return code if code in LANGUAGES and code in NAMES else None
