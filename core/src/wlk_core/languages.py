"""Languages as people write them: codes, tags such as en-US, and English names."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: English names of published models' languages, by ISO 639-1 code or, where that has none, 639-3.
NAMES = {
    "af": "Afrikaans", "am": "Amharic", "ar": "Arabic", "as": "Assamese", "az": "Azerbaijani",
    "ba": "Bashkir", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali", "bo": "Tibetan",
    "br": "Breton", "bs": "Bosnian", "ca": "Catalan", "cs": "Czech", "cy": "Welsh", "da": "Danish",
    "de": "German", "el": "Greek", "en": "English", "es": "Spanish", "et": "Estonian",
    "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fil": "Filipino", "fo": "Faroese",
    "fr": "French", "gl": "Galician", "gu": "Gujarati", "ha": "Hausa", "haw": "Hawaiian",
    "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "ht": "Haitian Creole", "hu": "Hungarian",
    "hy": "Armenian", "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese",
    "jw": "Javanese", "ka": "Georgian", "kk": "Kazakh", "km": "Khmer", "kn": "Kannada",
    "ko": "Korean", "la": "Latin", "lb": "Luxembourgish", "ln": "Lingala", "lo": "Lao",
    "lt": "Lithuanian", "lv": "Latvian", "mg": "Malagasy", "mi": "Maori", "mk": "Macedonian",
    "ml": "Malayalam", "mn": "Mongolian", "mr": "Marathi", "ms": "Malay", "mt": "Maltese",
    "my": "Burmese", "ne": "Nepali", "nl": "Dutch", "nn": "Nynorsk", "no": "Norwegian",
    "oc": "Occitan", "pa": "Punjabi", "pl": "Polish", "ps": "Pashto", "pt": "Portuguese",
    "ro": "Romanian", "ru": "Russian", "sa": "Sanskrit", "sd": "Sindhi", "si": "Sinhala",
    "sk": "Slovak", "sl": "Slovenian", "sn": "Shona", "so": "Somali", "sq": "Albanian",
    "sr": "Serbian", "su": "Sundanese", "sv": "Swedish", "sw": "Swahili", "ta": "Tamil",
    "te": "Telugu", "tg": "Tajik", "th": "Thai", "tk": "Turkmen", "tl": "Tagalog", "tr": "Turkish",
    "tt": "Tatar", "uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese",
    "yi": "Yiddish", "yo": "Yoruba", "yue": "Cantonese", "zh": "Chinese",
}  # fmt: skip
_MAX_MISSPELT = 40  # characters: difflib takes seconds for the megabytes that a client can send


def find_language(text: str, codes: Sequence[str], *, likeness: float = 1.0) -> str:
    """
    Return the code among *codes* that *text* names, ignoring case; *text* itself if there is none.

    A *likeness* (difflib's ratio) below 1 also accepts a misspelt name of at most 40 characters;
    from 0.85 on, few are confused.

    >>> [find_language(text, ("de", "en")) for text in ("EN", "en-US", "en_GB", "German", "Welsh")]
    ['en', 'en', 'en', 'de', 'Welsh']
    """
    tag = text.strip().lower().replace("_", "-")
    by_name = {NAMES.get(code, code).lower(): code for code in codes}
    by_tag = {code.lower(): code for code in codes}
    code = by_tag.get(tag) or by_tag.get(tag.partition("-")[0]) or by_name.get(tag)
    if code is None and likeness < 1 and len(tag) <= _MAX_MISSPELT:
        close = difflib.get_close_matches(tag, by_name, n=1, cutoff=likeness)
        code = by_name[close[0]] if close else None
    return text if code is None else code
