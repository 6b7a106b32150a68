"""Declare the backend, without importing its engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import BackendSpec, Option, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable

VOSK = BackendSpec(
    name="vosk",
    api=1,
    summary="Kaldi models of Vosk in 20 languages: any CPU",
    load="wlk_vosk.backend:load",
    options=(
        Option(
            name="phrases",
            type=str,
            default=None,
            help="the only phrases to recognise, separated by commas; without them, the whole "
            "vocabulary of the model",
            scope="stream",
        ),
    ),
    capabilities={
        "hypothesis",
        "word-times",
        "probabilities",
        "speaker-turns",
        "bounded-state",
    },
    # Those of the published models; a loaded one declares its own.
    languages=(
        *("ar", "br", "ca", "cs", "de", "el", "en", "eo", "es", "fa", "fr", "gu", "hi", "it", "ja"),
        *("kk", "ko", "nl", "pl", "pt", "ru", "sv", "te", "tg", "tl", "tr", "uk", "uz", "vi", "zh"),
    ),
    digit_models=(),
    max_delay=2.0,  # a block of 0.2 s, the frames that the network decodes together, and a word
    preference=-50,  # never the default, because no model is downloaded
    requires={"vosk": "pip install wlk-vosk"},
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return [VOSK]
