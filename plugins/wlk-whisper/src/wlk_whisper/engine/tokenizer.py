"""Tokenizers: the protocol that decoding calls, and the tokenizer.json of a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tokenizers import Tokenizer as HfTokenizer

from wlk_core.models import read_json_bytes
from wlk_core.plugins import ModelNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TOKENIZER_FILE", "Tokenizer", "read_tokenizer"]

TOKENIZER_FILE = "tokenizer.json"


class Tokenizer(Protocol):
    """The tokenizer of a language and a task, such as that of faster-whisper."""

    @property
    def sot(self) -> int:
        """Start of transcript."""
        ...

    @property
    def sot_prev(self) -> int:
        """Start of the previous text."""
        ...

    @property
    def eot(self) -> int:
        """End of text; all larger ids are special."""
        ...

    @property
    def no_speech(self) -> int:
        """No speech."""
        ...

    @property
    def no_timestamps(self) -> int:
        """Text without timestamps follows."""
        ...

    @property
    def timestamp_begin(self) -> int:
        """The first timestamp; all larger ids are timestamps too."""
        ...

    @property
    def sot_sequence(self) -> list[int]:
        """Start of transcript, language and task."""
        ...

    @property
    def non_speech_tokens(self) -> tuple[int, ...]:
        """Text tokens that are not speech: brackets, notes, ..."""
        ...

    def encode(self, text: str) -> list[int]:
        """Return the ids of *text*."""
        ...

    def split_to_word_tokens(self, tokens: list[int]) -> tuple[list[str], list[list[int]]]:
        """Return the words of *tokens*, and the ids of each."""
        ...


def read_tokenizer(path: Path) -> HfTokenizer:
    """
    Return the tokenizer in the file *path*.

    Raises:
        ModelNotFoundError: the file is missing or is not a tokenizer.

    """
    remedy = (
        f"pull the model again, or copy the {TOKENIZER_FILE} of the model it was made from into "
        "its directory"
    )
    content = read_json_bytes(path, remedy=remedy)
    if content is None:
        raise ModelNotFoundError(f"{path} is missing; {remedy}")
    try:
        # From a file, tokenizers raises a bare Exception; from bytes, a ValueError.
        return HfTokenizer.from_buffer(content)
    except ValueError as error:
        raise ModelNotFoundError(
            f"{path} is no tokenizer: {' '.join(str(error).split())}; {remedy}"
        ) from error
