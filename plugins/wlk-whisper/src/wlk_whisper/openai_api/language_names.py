"""The English names of Whisper's languages, which endpoints report instead of codes."""

from __future__ import annotations

from wlk_whisper.languages import LANGUAGES

__all__ = ["iso_639_1", "language_code"]

# openai/whisper, whisper/tokenizer.py, in the order of LANGUAGES.
_NAMES = (
    "english", "chinese", "german", "spanish", "russian", "korean", "french", "japanese",
    "portuguese", "turkish", "polish", "catalan", "dutch", "arabic", "swedish", "italian",
    "indonesian", "hindi", "finnish", "vietnamese", "hebrew", "ukrainian", "greek", "malay",
    "czech", "romanian", "danish", "hungarian", "tamil", "norwegian", "thai", "urdu", "croatian",
    "bulgarian", "lithuanian", "latin", "maori", "malayalam", "welsh", "slovak", "telugu",
    "persian", "latvian", "bengali", "serbian", "azerbaijani", "slovenian", "kannada", "estonian",
    "macedonian", "breton", "basque", "icelandic", "armenian", "nepali", "mongolian", "bosnian",
    "kazakh", "albanian", "swahili", "galician", "marathi", "punjabi", "sinhala", "khmer", "shona",
    "yoruba", "somali", "afrikaans", "occitan", "georgian", "belarusian", "tajik", "sindhi",
    "gujarati", "amharic", "yiddish", "lao", "uzbek", "faroese", "haitian creole", "pashto",
    "turkmen", "nynorsk", "maltese", "sanskrit", "luxembourgish", "myanmar", "tibetan", "tagalog",
    "malagasy", "assamese", "tatar", "hawaiian", "lingala", "hausa", "bashkir", "javanese",
    "sundanese", "cantonese",
)  # fmt: skip

# Other names in use, including those that openai/whisper accepts (TO_LANGUAGE_CODE).
_ALIASES = {
    "burmese": "my", "valencian": "ca", "flemish": "nl", "haitian": "ht", "letzeburgesch": "lb",
    "pushto": "ps", "panjabi": "pa", "moldavian": "ro", "moldovan": "ro", "sinhalese": "si",
    "castilian": "es", "mandarin": "zh", "farsi": "fa", "jv": "jw",
}  # fmt: skip

_CODES = {
    **dict(zip(_NAMES, LANGUAGES, strict=True)),
    **{code: code for code in LANGUAGES},
    **_ALIASES,
}


def language_code(name: str | None) -> str | None:
    """
    Return the code of a language that an endpoint names in English or by its code.

    The result is None for a language that Whisper does not support.

    >>> language_code("English"), language_code("de"), language_code("klingon")
    ('en', 'de', None)
    """
    return None if name is None else _CODES.get(name.strip().casefold())


def iso_639_1(code: str) -> str | None:
    """
    Return the ISO 639-1 code for one of Whisper's codes; None where the standard has none.

    Whisper's code for Javanese is the misspelling of a draft of the standard.

    >>> iso_639_1("en"), iso_639_1("jw"), iso_639_1("yue")
    ('en', 'jv', None)
    """
    if code == "jw":
        return "jv"
    return code if len(code) == 2 else None  # noqa: PLR2004 -- the length that part 1 is about
