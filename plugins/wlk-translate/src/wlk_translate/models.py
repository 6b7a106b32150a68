"""The published OPUS-MT models in CTranslate2's format, by the languages that they translate."""

from __future__ import annotations

# Conversions of Helsinki-NLP/opus-mt-* by others; each is one direction, 160 to 310 MB.  The author
# with most of them has some without weights: these are known to be whole.
_GAUDI = (
    "ar-en", "ca-en", "de-en", "en-de", "en-eu", "en-vi", "en-zh", "es-en", "es-eu", "eu-en",
    "eu-es", "fr-en", "fr-es", "hi-en", "id-en", "it-en", "ja-en", "ko-en", "nl-en", "pl-en",
    "ru-en", "sv-en", "tr-en", "uk-en", "vi-en", "zh-en",
)  # fmt: skip

_FOUND = {
    **{pair: f"gaudi/opus-mt-{pair}-ctranslate2" for pair in _GAUDI},
    **{pair: f"michaelfeil/ct2fast-opus-mt-{pair}" for pair in ("en-es", "en-fr")},
    **{pair: f"ooeoeo/opus-mt-{pair}-ct2-float16" for pair in ("en-ar", "en-it", "en-ru")},
}

#: Repositories by "SOURCE-TARGET".
MODELS = dict(sorted(_FOUND.items()))

#: What a model of several target languages calls a language where that is not its code.
TARGET_TOKENS = {"pt": "por", "zh": "cmn_Hans"}
