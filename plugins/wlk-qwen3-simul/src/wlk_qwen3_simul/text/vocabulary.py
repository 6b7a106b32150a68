"""The tokens of a checkpoint: text to ids, and ids to the very bytes they stand for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from wlk_core import ModelNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["AUDIO_END", "AUDIO_START", "TEXT_START", "TURN_END", "TURN_START", "Vocabulary"]

TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"
AUDIO_START, AUDIO_END = "<|audio_start|>", "<|audio_end|>"
TEXT_START = "<asr_text>"
NO_MORE = "<|endoftext|>"
MARKS = (TURN_START, TURN_END, AUDIO_START, AUDIO_END, TEXT_START)

# How Qwen2's tokenizer divides text before it looks for tokens (vocab.json and merges.txt do not
# say); tokenizer.json of Qwen/Qwen2.5.
_PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _byte_letters() -> dict[str, int]:
    """Return the bytes by the letters that stand for them in byte-level vocabularies (GPT-2)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    letters = {chr(byte): byte for byte in plain}
    return letters | {chr(256 + place): byte for place, byte in enumerate(rest)}


_BYTES = _byte_letters()


@attrs.frozen(kw_only=True, eq=False)
class Vocabulary:
    """
    A tokenizer and the ids of its marks, all of them as the checkpoint has them.

    Attributes:
        tokenizer: text to ids.
        marks: id of each mark by its text.
        ends: ids that end a text.

    """

    tokenizer: Tokenizer
    marks: dict[str, int]
    ends: frozenset[int]
    _added: frozenset[int]

    @classmethod
    def read(cls, directory: Path) -> Vocabulary:
        """
        Read tokenizer.json, or vocab.json with merges.txt where a checkpoint has no other.

        Raises:
            ModelNotFoundError: there is none, it is damaged, or it lacks a mark of Qwen3-ASR.

        """
        tokenizer = _tokenizer(directory)
        marks: dict[str, int] = {}
        for mark in MARKS:
            found = tokenizer.token_to_id(mark)
            if found is None:
                raise ModelNotFoundError(
                    f"the tokenizer in {directory} has no {mark}: it is none of Qwen3-ASR; pull "
                    "the model again, or name another"
                )
            marks[mark] = found
        added = frozenset(tokenizer.get_added_tokens_decoder()) | frozenset(marks.values())
        ends = {marks[TURN_END], marks[TURN_START], *_told_ends(directory)}
        no_more = tokenizer.token_to_id(NO_MORE)
        if no_more is not None:
            ends.add(no_more)
        return cls(tokenizer=tokenizer, marks=marks, ends=frozenset(ends), added=added)

    @property
    def highest(self) -> int:
        """The highest id, of those that the tokenizer gives and those that end a text."""
        return max(*self.ends, *self.tokenizer.get_vocab().values())

    def encode(self, text: str) -> list[int]:
        """Return the ids of *text*, which holds no mark: see mark_in."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def mark_in(self, text: str) -> str | None:
        """Return a mark that *text* holds, and would be taken for, or None."""
        spelt = (str(token) for token in self.tokenizer.get_added_tokens_decoder().values())
        return next((mark for mark in (*MARKS, *spelt) if mark in text), None)

    def bytes_of(self, token: int) -> bytes:
        """Return what *token* stands for in a text; marks and ids without a token stand for b""."""
        if token in self._added:
            return b""
        spelt = self.tokenizer.id_to_token(token)
        if spelt is None:
            return b""
        return bytes(_BYTES[letter] for letter in spelt if letter in _BYTES)

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text of *tokens*; bytes that make no character are left out."""
        spelt = b"".join(map(self.bytes_of, tokens))
        return spelt.decode("utf-8", errors="ignore").replace("\ufffd", "")


def _tokenizer(directory: Path) -> Tokenizer:
    whole = directory / "tokenizer.json"
    if whole.is_file():
        try:
            # From a file, tokenizers raises a bare Exception; from bytes, a ValueError.
            return Tokenizer.from_buffer(whole.read_bytes())
        except (OSError, ValueError) as error:
            raise _damaged(whole, error) from error
    vocab, merges = directory / "vocab.json", directory / "merges.txt"
    if not (vocab.is_file() and merges.is_file()):
        raise ModelNotFoundError(
            f"expected tokenizer.json, or vocab.json with merges.txt, in {directory}, found "
            "neither; pull the model again"
        )
    added = _added_tokens(directory / "tokenizer_config.json")
    try:
        ids = json.loads(vocab.read_text(encoding="utf-8"))
        ids |= {token.content: number for number, token in added.items()}
        lines = merges.read_text(encoding="utf-8").splitlines()
        merged = (line.partition(" ") for line in lines if line and not line.startswith("#v"))
        pairs = [(one, other) for one, _, other in merged]
        tokenizer = Tokenizer(models.BPE(vocab=ids, merges=pairs))
    except (ValueError, TypeError, OSError) as error:
        raise _damaged(vocab, error) from error
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([added[number] for number in sorted(added)])
    return tokenizer


def _added_tokens(path: Path) -> dict[int, AddedToken]:
    if not path.is_file():
        return {}
    told = _read(path).get("added_tokens_decoder", {})
    try:
        return {
            int(number): AddedToken(entry["content"], normalized=False, special=True)
            for number, entry in told.items()
        }
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        reason = ValueError(f"added_tokens_decoder holds no tokens by their ids: {error}")
        raise _damaged(path, reason) from error


def _told_ends(directory: Path) -> list[int]:
    path = directory / "generation_config.json"
    told = _read(path).get("eos_token_id") if path.is_file() else None
    ends = told if isinstance(told, list) else [] if told is None else [told]
    if not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in ends):
        raise _damaged(path, TypeError(f"expected eos_token_id as ids, got {told!r}"))
    return ends


def _read(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error
    if not isinstance(told, dict):
        raise _damaged(path, TypeError(f"expected a table, got {type(told).__name__}"))
    return told


def _damaged(path: Path, error: Exception) -> ModelNotFoundError:
    told = " ".join(str(error).split())
    return ModelNotFoundError(f"{path} cannot be read: {told}; pull the model again")
