"""Which language is spoken, as the decoder tells it behind the start of the transcript."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_core import Work
from wlk_whisper.languages import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

    from wlk_whisper.decoder.network import Encoded, Network

__all__ = ["detect_language", "is_multilingual"]

MULTILINGUAL = 51865  # rows of the vocabulary of every multilingual Whisper; English ones have less


def is_multilingual(network: Network) -> bool:
    """Tell whether the model takes language and task tokens."""
    return network.vocabulary >= MULTILINGUAL


def detect_language(
    network: Network,
    encoded: Encoded,
    tokenizer: Tokenizer,
    *,
    known: Sequence[str] | None = None,
) -> tuple[str, Work]:
    """
    Return the likeliest language of *encoded*, of those the checkpoint knows, and the work done.

    An English-only model is not asked.
    """
    if not is_multilingual(network):
        return "en", Work()
    codes = [code for code in LANGUAGES if known is None or code in known]
    ids = {code: tokenizer.token_to_id(f"<|{code}|>") for code in codes}
    # A code without a token (yue, before large-v3) cannot be told.
    places = {code: place for code, place in ids.items() if place is not None}
    start = np.array([[tokenizer.token_to_id("<|startoftranscript|>")]], dtype=np.int64)
    logits = network.begin(encoded).forward(start).logits[0, -1]
    language = max(places, key=lambda code: float(logits[places[code]]))
    return language, Work(decoder_positions=1, decoder_forwards=1, host_syncs=1)
