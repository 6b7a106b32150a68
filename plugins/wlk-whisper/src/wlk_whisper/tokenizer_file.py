"""Read the tokenizer.json of a checkpoint, or say that it is damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from wlk_core import ModelNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TOKENIZER", "read_tokenizer"]

TOKENIZER = "tokenizer.json"


def read_tokenizer(path: Path) -> Tokenizer:
    """
    Return the vocabulary in the file *path*.

    Raises:
        ModelNotFoundError: it is not there, or describes no tokenizer.

    """
    try:
        # From a file, tokenizers raises a bare Exception; from bytes, a ValueError.
        return Tokenizer.from_buffer(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ModelNotFoundError(
            f"{path} cannot be read: {' '.join(str(error).split())}; pull the model again, or copy "
            f"the {TOKENIZER} of the model it was made from beside its weights"
        ) from error
