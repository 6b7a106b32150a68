"""Language detection: the decoder's logits after the start-of-transcript token."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlk_core.plugins import WorkCounters
from wlk_whisper.engine.passes import decoder_pass
from wlk_whisper.languages import LANGUAGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer as HfTokenizer

    from wlk_whisper.engine.network import EncoderOutput, Network
    from wlk_whisper.engine.passes import Passes

__all__ = ["detect_language", "is_multilingual"]

MULTILINGUAL_ROWS = 51865  # n_vocab of multilingual Whisper; English-only models have fewer


def is_multilingual(network: Network) -> bool:
    """Return whether the model has language and task tokens."""
    return network.n_vocab >= MULTILINGUAL_ROWS


def detect_language(
    network: Network,
    encoder_output: EncoderOutput,
    hf_tokenizer: HfTokenizer,
    *,
    languages: Sequence[str] | None = None,
) -> Passes[tuple[str, WorkCounters]]:
    """
    Return the likeliest language of an encoder output, and the work counters.

    *languages* are the candidates, None for all of Whisper's.  An English-only model returns
    English without a forward pass.

    Raises:
        ChoiceTooClose: a choice may be another one in a pass without other streams.

    """
    if not is_multilingual(network):
        return "en", WorkCounters()
    codes = [code for code in LANGUAGES if languages is None or code in languages]
    ids = {code: hf_tokenizer.token_to_id(f"<|{code}|>") for code in codes}
    # Codes without a token (yue, before large-v3) are left out.
    ids_with_token = {code: token for code, token in ids.items() if token is not None}
    start = np.array([[hf_tokenizer.token_to_id("<|startoftranscript|>")]], dtype=np.int64)
    output = yield from decoder_pass(network.new_decoder(encoder_output), start)
    logits = {code: float(output.logits[0, -1, token]) for code, token in ids_with_token.items()}
    language = max(logits, key=logits.__getitem__)
    for code in logits.keys() - {language}:
        output.rounding.require_lead(logits[language] - logits[code])
    return language, WorkCounters(decoder_positions=1, decoder_forwards=1, host_syncs=1)
