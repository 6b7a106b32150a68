"""The tokenizer.json of a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenizers import Tokenizer as HfTokenizer

from wlk_core import ModelNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TOKENIZER_FILE", "read_tokenizer"]

TOKENIZER_FILE = "tokenizer.json"


def read_tokenizer(path: Path) -> HfTokenizer:
    """
    Return the tokenizer in the file *path*.

    Raises:
        ModelNotFoundError: the file is missing or is not a tokenizer.

    """
    try:
        # From a file, tokenizers raises a bare Exception; from bytes, a ValueError.
        return HfTokenizer.from_buffer(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ModelNotFoundError(
            f"{path} cannot be read: {' '.join(str(error).split())}; pull the model again, or copy "
            f"the {TOKENIZER_FILE} of the model it was made from into its directory"
        ) from error
