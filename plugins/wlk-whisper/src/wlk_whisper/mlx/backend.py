"""Load a Whisper in mlx-whisper's format or transformers', and run it on MLX."""

from __future__ import annotations

from functools import partial
import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import attrs
from faster_whisper.feature_extractor import FeatureExtractor
from faster_whisper.tokenizer import Tokenizer
from mlx_whisper.tokenizer import get_encoding

from wlk_core.plugins import ModelNotFoundError
from wlk_frameworks.mlx import choose_dtype, shared_stream
from wlk_whisper.backend import network_backend
from wlk_whisper.checkpoint import find_model
from wlk_whisper.engine.tokenizer_file import TOKENIZER_FILE, check_token_ids, read_tokenizer
from wlk_whisper.mlx.checkpoint import load_model
from wlk_whisper.mlx.network import MlxNetwork

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tiktoken import Encoding as TiktokenEncoding
    from tokenizers import Tokenizer as HfTokenizer

    from wlk_core.plugins import BackendSpec, LoadedBackend
    from wlk_whisper.engine.engine import WhisperEngine

logger = logging.getLogger(__name__)

INSTALL_HINT = "pip install 'wlk-whisper[mlx-cuda]'"
# Encoding and number of languages by vocabulary rows: English-only, multilingual, since large-v3.
ENCODINGS = {51864: ("gpt2", 99), 51865: ("multilingual", 99), 51866: ("multilingual", 100)}


def load(
    spec: BackendSpec,
    model: str,
    *,
    device: str = "auto",
    dtype: str = "auto",
    alignment_heads: str | None = None,
    cache_dir: str | None = None,
) -> LoadedBackend[WhisperEngine]:
    """
    Find *model* and load it.

    Raises:
        ModelNotFoundError: the model is missing, or is not a Whisper in a format that MLX reads.
        OptionError: the alignment heads do not fit the model.
        BackendUnavailable: the device is missing.

    """
    stream = shared_stream(device, install_hint=INSTALL_HINT)
    directory, checkpoint = find_model(spec, model, cache_dir=cache_dir)
    mlx_dtype = choose_dtype(dtype, is_gpu=stream.is_gpu, declared=checkpoint.dtype)
    with stream.acquire():
        whisper, saved_heads = load_model(directory, dtype=mlx_dtype)
    dims = whisper.dims
    logger.info("%s runs in %s on %s", checkpoint.name, mlx_dtype, stream.device)
    return network_backend(
        spec,
        directory,
        checkpoint,
        load_tokenizer(directory, dims.n_vocab),
        new_network=partial(MlxNetwork, whisper, stream=stream, dtype=mlx_dtype),
        tokenizer_class=Tokenizer,
        feature_extractor=FeatureExtractor(feature_size=dims.n_mels),
        shape=(dims.n_text_layer, dims.n_text_head, dims.n_vocab),
        alignment_heads=alignment_heads,
        saved_heads=saved_heads,
    )


@attrs.frozen(eq=False)
class TiktokenTokenizer:
    """
    A tiktoken encoding with the methods of `tokenizers.Tokenizer` that decoding calls.

    mlx-whisper, like openai/whisper, ships the merge ranks in its wheel and computes the ids of the
    special tokens, so a checkpoint needs no tokenizer file.
    """

    encoding: TiktokenEncoding

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a special token such as ``<|en|>``, None for any other text."""
        if token not in self.encoding.special_tokens_set:
            return None
        return int(self.encoding.encode_single_token(token))

    def encode(self, text: str, *, add_special_tokens: bool = False) -> SimpleNamespace:
        """Return the `ids` of *text*, in which special tokens are text like any other."""
        del add_special_tokens  # never requested: the prompt contains them already
        return SimpleNamespace(ids=self.encoding.encode_ordinary(text))

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of *tokens* without special ones; incomplete characters are U+FFFD."""
        text = [token for token in tokens if token < self.encoding.eot_token]
        return str(self.encoding.decode(text, errors="replace"))


def load_tokenizer(directory: Path, n_vocab: int) -> HfTokenizer:
    """
    Return the tokenizer of a checkpoint with *n_vocab* vocabulary rows.

    It is read from the checkpoint's tokenizer.json, else it is that of the Whisper with as many
    rows.

    Raises:
        ModelNotFoundError: the file is damaged or does not fit the others of the checkpoint, or it
            is missing and no Whisper has as many rows.

    """
    if (directory / TOKENIZER_FILE).exists():
        return read_tokenizer(directory, n_vocab=n_vocab)
    if n_vocab not in ENCODINGS:
        raise ModelNotFoundError(
            f"{directory} has no {TOKENIZER_FILE}, and its vocabulary has {n_vocab} rows, unlike "
            f"Whisper's ({', '.join(map(str, ENCODINGS))}); copy the {TOKENIZER_FILE} of the model "
            "it was converted from into its directory"
        )
    name, languages = ENCODINGS[n_vocab]
    encoding = get_encoding(name, num_languages=languages)
    hf_tokenizer = cast("HfTokenizer", TiktokenTokenizer(encoding))
    check_token_ids(hf_tokenizer, directory, n_vocab=n_vocab)
    return hf_tokenizer
