"""The tokenizer of a checkpoint: text to ids, and ids to the exact bytes they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from msgspec import Struct
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from wlk_core.plugins import ModelNotFoundError
from wlk_core.untrusted import one_line
from wlk_frameworks.checkpoints import Index, check_agreement, read_json_table, read_limited

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TURN_START, TURN_END = "<|im_start|>", "<|im_end|>"
AUDIO_START, AUDIO_END, AUDIO_PAD = "<|audio_start|>", "<|audio_end|>", "<|audio_pad|>"
TEXT_START = "<asr_text>"
END_OF_TEXT = "<|endoftext|>"
SPECIAL_TOKENS = (TURN_START, TURN_END, AUDIO_START, AUDIO_END, TEXT_START)


class _AddedToken(Struct):
    content: str


class _TokenizerConfig(Struct):
    added_tokens_decoder: dict[str, _AddedToken] | None = None


class _AudioIds(Struct):
    audio_token_id: Index | None = None
    audio_start_token_id: Index | None = None
    audio_end_token_id: Index | None = None


class _Config(_AudioIds):
    thinker_config: _AudioIds | None = None


class _GenerationConfig(Struct):
    eos_token_id: Index | list[Index] | None = None


# The pre-tokenizer pattern of Qwen2, which vocab.json and merges.txt do not contain; from the
# tokenizer.json of Qwen/Qwen2.5.
_PRETOKENS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _byte_letters() -> dict[str, int]:
    """Return the byte that each letter stands for in a byte-level vocabulary (GPT-2)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(256 + index): byte for index, byte in enumerate(rest)}


_BYTES = _byte_letters()


@attrs.frozen(kw_only=True, eq=False)
class Vocabulary:
    """
    The tokenizer of a checkpoint, with the ids of its special tokens.

    Attributes:
        tokenizer: encodes text.
        special_ids: the id of each special token by its text.
        end_ids: ids that end a transcript.

    """

    tokenizer: Tokenizer
    special_ids: dict[str, int]
    end_ids: frozenset[int]
    _added_ids: frozenset[int]

    @classmethod
    def read(cls, directory: Path) -> Vocabulary:
        """
        Read tokenizer.json or, if there is none, vocab.json with merges.txt.

        Raises:
            ModelNotFoundError: the files are missing or damaged, lack a special token, or give it
                another id than config.json or tokenizer_config.json.

        """
        tokenizer = _tokenizer(directory)
        _check_ids(directory, tokenizer)
        special_ids: dict[str, int] = {}
        for text in SPECIAL_TOKENS:
            token = tokenizer.token_to_id(text)
            if token is None:
                raise ModelNotFoundError(
                    f"the tokenizer in {directory} has no {text}: it does not belong to Qwen3-ASR; "
                    "pull the model again, or name another"
                )
            special_ids[text] = token
        added = frozenset(tokenizer.get_added_tokens_decoder()) | frozenset(special_ids.values())
        eos = read_json_table(directory / "generation_config.json", _GenerationConfig).get(
            "eos_token_id"
        )
        ends = [special_ids[TURN_END], special_ids[TURN_START], tokenizer.token_to_id(END_OF_TEXT)]
        ends += eos if isinstance(eos, list) else [eos]
        return cls(
            tokenizer=tokenizer,
            special_ids=special_ids,
            end_ids=frozenset(end for end in ends if end is not None),
            added_ids=added,
        )

    @property
    def highest_id(self) -> int:
        """The highest id of the tokenizer and of the ids that end a transcript."""
        return max(*self.end_ids, *self.tokenizer.get_vocab().values())

    def encode(self, text: str) -> list[int]:
        """Return the ids of *text*, which must contain no special token: see special_token_in."""
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def special_token_in(self, text: str) -> str | None:
        """Return a special token that *text* spells out, or None."""
        added = (str(token) for token in self.tokenizer.get_added_tokens_decoder().values())
        return next((token for token in (*SPECIAL_TOKENS, *added) if token in text), None)

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes of *token* in a transcript; b"" for special tokens and unknown ids."""
        if token in self._added_ids:
            return b""
        letters = self.tokenizer.id_to_token(token)
        if letters is None:
            return b""
        return bytes(_BYTES[letter] for letter in letters if letter in _BYTES)

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text of *tokens*, without bytes that do not form a character."""
        text = b"".join(map(self.bytes_of, tokens))
        return text.decode("utf-8", errors="ignore").replace("\ufffd", "")


def _check_ids(directory: Path, tokenizer: Tokenizer) -> None:
    """Check the ids of special tokens in the other files against those of the tokenizer."""
    path = directory / "tokenizer.json"
    if not path.exists():
        path = directory / "vocab.json"
    table = read_json_table(directory / "config.json", _Config)
    ids = table.get("thinker_config") or table
    claims = [
        ("config.json", text, key, ids.get(key))
        for key, text in {
            "audio_token_id": AUDIO_PAD,
            "audio_start_token_id": AUDIO_START,
            "audio_end_token_id": AUDIO_END,
        }.items()
    ]
    config = directory / "tokenizer_config.json"
    claims += [
        (config.name, token.content, token.content, number)
        for number, token in _added_tokens(config).items()
    ]
    for name, text, key, number in claims:
        own = (text, tokenizer.token_to_id(text))
        check_agreement(path, own, directory / name, (key, number))


def _tokenizer(directory: Path) -> Tokenizer:
    whole = directory / "tokenizer.json"
    content = read_limited(whole)
    if content is not None:
        try:
            # tokenizers raises a bare Exception for a damaged file, but a ValueError for bytes.
            return Tokenizer.from_buffer(content)
        except ValueError as error:
            raise _damaged(whole, error) from error
    vocab, merges = directory / "vocab.json", directory / "merges.txt"
    if not (vocab.is_file() and merges.is_file()):
        raise ModelNotFoundError(
            f"expected tokenizer.json, or vocab.json with merges.txt, in {directory}, found "
            "neither; pull the model again"
        )
    added = _added_tokens(directory / "tokenizer_config.json")
    ids = read_json_table(vocab, dict[str, Index])
    ids |= {token.content: number for number, token in added.items()}
    pairs = _merges(merges)
    try:
        tokenizer = Tokenizer(models.BPE(vocab=ids, merges=pairs))
    except (ValueError, TypeError, OverflowError) as error:
        raise _damaged(vocab, error) from error
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PRETOKENS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([added[number] for number in sorted(added)])
    return tokenizer


def _merges(path: Path) -> list[tuple[str, str]]:
    try:
        lines = (read_limited(path) or b"").decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise _damaged(path, error) from error
    merges = (line.partition(" ") for line in lines if line and not line.startswith("#v"))
    return [(left, right) for left, _, right in merges]


def _added_tokens(path: Path) -> dict[int, AddedToken]:
    entries = read_json_table(path, _TokenizerConfig).get("added_tokens_decoder") or {}
    numbers = {number: int(number) for number in entries if number.isdecimal() and number.isascii()}
    if unknown := sorted(entries.keys() - numbers.keys()):
        raise _damaged(
            path, f"expected added_tokens_decoder to hold tokens by their ids, got {unknown[0]!r}"
        )
    return {
        numbers[number]: AddedToken(entry["content"], normalized=False, special=True)
        for number, entry in entries.items()
    }


def _damaged(path: Path, reason: object) -> ModelNotFoundError:
    return ModelNotFoundError(
        f"{path} cannot be read: {one_line(str(reason))}; pull the model again"
    )
