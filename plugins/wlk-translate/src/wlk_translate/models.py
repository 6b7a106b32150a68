"""List the published OPUS-MT models in CTranslate2's format, by their pairs of languages."""

from __future__ import annotations

# Conversions of Helsinki-NLP/opus-mt-* by third parties, one per direction, 160 to 310 MB each.
# Some repositories of their most productive author have no weights: these are known to have them.
_GAUDI = (
    "ar-en", "ca-en", "de-en", "en-de", "en-eu", "en-vi", "en-zh", "es-en", "es-eu", "eu-en",
    "eu-es", "fr-en", "fr-es", "hi-en", "id-en", "it-en", "ja-en", "ko-en", "nl-en", "pl-en",
    "ru-en", "sv-en", "tr-en", "uk-en", "vi-en", "zh-en",
)  # fmt: skip

_REPOSITORIES = {
    **{pair: f"gaudi/opus-mt-{pair}-ctranslate2" for pair in _GAUDI},
    **{pair: f"michaelfeil/ct2fast-opus-mt-{pair}" for pair in ("en-es", "en-fr")},
    **{pair: f"ooeoeo/opus-mt-{pair}-ct2-float16" for pair in ("en-ar", "en-it", "en-ru")},
}

#: Repositories by "SOURCE-TARGET".
MODELS = dict(sorted(_REPOSITORIES.items()))

#: Names of languages in models with several targets, if different from the code.
TARGET_TOKENS = {"pt": "por", "zh": "cmn_Hans"}
