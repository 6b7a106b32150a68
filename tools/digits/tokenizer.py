"""Whisper's multilingual tokenizer, rebuilt from its list of ranks without a network."""

from __future__ import annotations

import base64
from importlib.util import find_spec
import itertools
from pathlib import Path

from tokenizer_qwen3 import byte_letters
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers.models.whisper.tokenization_whisper import LANGUAGES
from vocabulary import END_OF_TEXT, FULL_SIZE, TIMESTAMPS

__all__ = ["build_tokenizer", "find_ranks", "languages"]

_PAIR = 2
_RANKS = Path("assets", "multilingual.tiktoken")


def find_ranks() -> Path:
    """Return the list of ranks that openai-whisper and mlx-whisper bring along.

    Raises:
        FileNotFoundError: neither is installed.
    """
    for package in ("whisper", "mlx_whisper"):
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            if (Path(folder) / _RANKS).is_file():
                return Path(folder) / _RANKS
    raise FileNotFoundError(
        "expected multilingual.tiktoken, found none: give its path with --ranks, or pip install "
        "openai-whisper"
    )


def languages() -> list[str]:
    """Return the 99 language codes of the first checkpoints, in their tokens' order."""
    return list(LANGUAGES)[:99]


def build_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer whose ranks are stored in a tiktoken file."""
    ranks = {}
    for line in path.read_bytes().splitlines():
        if line:
            token, rank = line.split()
            ranks[base64.b64decode(token)] = int(rank)
    characters = byte_letters()
    spell = {token: "".join(characters[byte] for byte in token) for token in ranks}
    merges = [
        (spell[left], spell[right])
        for left, right in (
            _parts(token, rank, ranks) for token, rank in ranks.items() if len(token) > 1
        )
    ]
    model = models.BPE(vocab={spell[token]: rank for token, rank in ranks.items()}, merges=merges)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    codes = [f"<|{code}|>" for code in languages()]
    tasks = [
        "<|translate|>",
        "<|transcribe|>",
        "<|startoflm|>",
        "<|startofprev|>",
        "<|nospeech|>",
        "<|notimestamps|>",
    ]
    names = ["<|endoftext|>", "<|startoftranscript|>", *codes, *tasks]
    tokenizer.add_special_tokens(
        [AddedToken(name, normalized=False, special=True) for name in names]
    )
    times = [
        AddedToken(f"<|{0.02 * step:.2f}|>", normalized=False, special=False)
        for step in range(TIMESTAMPS)
    ]
    tokenizer.add_tokens(times)
    if (
        tokenizer.get_vocab_size() != FULL_SIZE
        or tokenizer.token_to_id("<|endoftext|>") != END_OF_TEXT
    ):
        size = tokenizer.get_vocab_size()
        raise ValueError(f"expected the {FULL_SIZE} tokens of Whisper, got {size} from {path}")
    return tokenizer


def _parts(token: bytes, rank: int, ranks: dict[bytes, int]) -> tuple[bytes, bytes]:
    """Return the two tokens whose merge made this one: what earlier merges leave of it."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > _PAIR:
        pairs = [ranks.get(left + right, rank) for left, right in itertools.pairwise(parts)]
        best = min(range(len(pairs)), key=pairs.__getitem__)
        parts[best : best + 2] = [parts[best] + parts[best + 1]]
    return parts[0], parts[1]
