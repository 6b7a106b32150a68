"""Whisper's vocabulary out of mlx-whisper, for checkpoints that bring no tokenizer of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import attrs
from mlx_whisper.tokenizer import get_encoding

from wlk_core import ModelNotFoundError
from wlk_whisper.tokenizer_file import TOKENIZER, read_tokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tiktoken import Encoding
    from tokenizers import Tokenizer

__all__ = ["RankedVocabulary", "vocabulary_of"]

# By rows: English-only models, multilingual ones, those from large-v3 on with one more language.
ENCODINGS = {51864: ("gpt2", 99), 51865: ("multilingual", 99), 51866: ("multilingual", 100)}


@attrs.frozen
class Ids:
    """The ids of a text, under the name that `tokenizers` has for them."""

    ids: list[int]


@attrs.frozen(eq=False)
class RankedVocabulary:
    """
    tiktoken's encoding behind what is used of `tokenizers.Tokenizer`.

    mlx-whisper, as openai/whisper, has the ranks of all merges in its wheel and computes the ids of
    the special tokens, so a checkpoint needs no tokenizer file.
    """

    encoding: Encoding

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a special token such as ``<|en|>``, None where there is none."""
        if token not in self.encoding.special_tokens_set:
            return None
        return int(self.encoding.encode_single_token(token))

    def encode(self, text: str, *, add_special_tokens: bool = False) -> Ids:
        """Return the ids of *text*, in which special tokens are text like any other."""
        if add_special_tokens:
            raise ValueError("expected add_special_tokens=False: the decoder places them itself")
        return Ids(self.encoding.encode_ordinary(text))

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of *tokens*, special ones left out; unfinished characters are U+FFFD."""
        text = [token for token in tokens if token < self.encoding.eot_token]
        return str(self.encoding.decode(text, errors="replace"))


def vocabulary_of(directory: Path, rows: int) -> Tokenizer:
    """
    Return the vocabulary of a checkpoint whose logits have *rows*.

    Its own tokenizer.json, where there is one, else the one of Whisper with that many rows.

    Raises:
        ModelNotFoundError: the file is damaged, or there is none and no Whisper has as many rows.

    """
    path = directory / TOKENIZER
    if path.is_file():
        return read_tokenizer(path)
    if rows not in ENCODINGS:
        raise ModelNotFoundError(
            f"{directory} has a vocabulary of {rows} rows, where Whisper has one of "
            f"{', '.join(map(str, ENCODINGS))}, and no {TOKENIZER}; put the {TOKENIZER} of the "
            "model it was converted from beside its weights"
        )
    name, languages = ENCODINGS[rows]
    return cast("Tokenizer", RankedVocabulary(get_encoding(name, num_languages=languages)))
