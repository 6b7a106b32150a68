"""The languages of Nemotron 3.5 ASR: codes for users, and the locales in the tags of the model."""

from __future__ import annotations

from wlk_core.languages import NAMES, find_language

#: Model card of nvidia/nemotron-3.5-asr-streaming-0.6b, 40 locales of these languages.
LANGUAGES = (
    "ar", "bg", "cs", "da", "de", "el", "en", "es", "et", "fi", "fr", "he", "hi", "hr", "hu", "it",
    "ja", "ko", "lt", "lv", "mt", "nl", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sv", "th", "tr",
    "uk", "vi", "zh",
)  # fmt: skip
_NORWEGIAN = ("nb", "nn")  # written forms, for which the model has locales of their own


def code_of(locale: str) -> str | None:
    """
    Return the code of the language of a locale; None for one that the model card does not name.

    >>> [code_of(locale) for locale in ("en-US", "nb-NO", "haw-US")]
    ['en', 'no', None]
    """
    code = "no" if locale.partition("-")[0] in _NORWEGIAN else find_language(locale, LANGUAGES)
    return code if code in LANGUAGES and code in NAMES else None
