"""mlx-whisper's vocabulary, for checkpoints without a tokenizer.json."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import attrs
from mlx_whisper.tokenizer import get_encoding

from wlk_core.plugins import ModelNotFoundError
from wlk_whisper.engine.model_files import TOKENIZER_FILE, read_tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tiktoken import Encoding as TiktokenEncoding
    from tokenizers import Tokenizer as HfTokenizer

__all__ = ["TiktokenTokenizer", "load_tokenizer"]

# By rows: English-only models, multilingual ones, and those since large-v3 with one more language.
ENCODINGS = {51864: ("gpt2", 99), 51865: ("multilingual", 99), 51866: ("multilingual", 100)}


@attrs.frozen(eq=False)
class TiktokenTokenizer:
    """
    A tiktoken encoding with the methods of `tokenizers.Tokenizer` that decoding calls.

    mlx-whisper, like openai/whisper, has the ranks of all merges in its wheel and computes the ids
    of the special tokens, so a checkpoint needs no tokenizer file.
    """

    encoding: TiktokenEncoding

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a special token such as ``<|en|>``, None for any other text."""
        if token not in self.encoding.special_tokens_set:
            return None
        return int(self.encoding.encode_single_token(token))

    def encode(self, text: str, *, add_special_tokens: bool = False) -> SimpleNamespace:
        """Return the `ids` of *text*, in which special tokens are text like any other."""
        del add_special_tokens  # never asked for: the prompt contains them already
        return SimpleNamespace(ids=self.encoding.encode_ordinary(text))

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of *tokens* without special ones; incomplete characters are U+FFFD."""
        text = [token for token in tokens if token < self.encoding.eot_token]
        return str(self.encoding.decode(text, errors="replace"))


def load_tokenizer(directory: Path, n_vocab: int) -> HfTokenizer:
    """
    Return the tokenizer of a checkpoint whose logits have *n_vocab* rows.

    This is the checkpoint's own tokenizer.json, else the one of Whisper with as many rows.

    Raises:
        ModelNotFoundError: the file is damaged, or it is missing and no Whisper has as many rows.

    """
    path = directory / TOKENIZER_FILE
    if path.exists():
        return read_tokenizer(path)
    if n_vocab not in ENCODINGS:
        raise ModelNotFoundError(
            f"{directory} has a vocabulary of {n_vocab} rows, where Whisper has one of "
            f"{', '.join(map(str, ENCODINGS))}, and no {TOKENIZER_FILE}; copy the "
            f"{TOKENIZER_FILE} of the model it was converted from into its directory"
        )
    name, languages = ENCODINGS[n_vocab]
    encoding = get_encoding(name, num_languages=languages)
    return cast("HfTokenizer", TiktokenTokenizer(encoding))
