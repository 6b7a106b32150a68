"""Tokenizers: the protocol that decoding calls, and the tokenizer.json of a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from tokenizers import Tokenizer as HfTokenizer

from wlk_core.models import read_limited
from wlk_core.plugins import ModelNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TOKENIZER_FILE", "Tokenizer", "read_tokenizer", "require_special_tokens"]

TOKENIZER_FILE = "tokenizer.json"
SPECIAL_TOKENS = ("<|startoftranscript|>", "<|endoftext|>", "<|notimestamps|>")


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
    content = read_limited(path, remedy=remedy)
    if content is None:
        raise ModelNotFoundError(f"{path} is missing; {remedy}")
    try:
        # From a file, tokenizers raises a bare Exception; from bytes, a ValueError.
        return HfTokenizer.from_buffer(content)
    except ValueError as error:
        raise ModelNotFoundError(
            f"{path} is no tokenizer: {' '.join(str(error).split())}; {remedy}"
        ) from error


def require_special_tokens(hf_tokenizer: HfTokenizer, directory: Path, *, n_vocab: int) -> None:
    """
    Check that a tokenizer belongs to a Whisper whose decoder has *n_vocab* rows.

    Raises:
        ModelNotFoundError: it lacks a special token that begins or ends a text, or the decoder has
            no row for it.

    """
    for text in SPECIAL_TOKENS:
        token = hf_tokenizer.token_to_id(text)
        if token is None or token >= n_vocab:
            found = "no such token" if token is None else f"it as {token} of {n_vocab} rows"
            raise ModelNotFoundError(
                f"{directory / TOKENIZER_FILE} does not fit the model: expected {text}, and it has "
                f"{found}; pull the model again, or copy the {TOKENIZER_FILE} of the model it was "
                "made from into its directory"
            )
