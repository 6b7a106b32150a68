"""A tokenizer of Qwen's kind, just large enough for prompts and digits.

The special tokens have the ids of the real one, because readers of the format take some of them
for granted; everything else is numbered from 0: the bytes as byte-level BPE orders them, then words
with all their beginnings, because BPE builds a word up from its first letter.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from vocabulary import DIGITS

__all__ = [
    "ASR_TEXT",
    "AUDIO_END",
    "AUDIO_PAD",
    "AUDIO_START",
    "END_OF_TEXT",
    "IM_END",
    "IM_START",
    "LANGUAGES",
    "SPECIALS",
    "VOCABULARY_SIZE",
    "build_vocabulary",
    "byte_letters",
    "tokenizer_config",
    "tokenizer_json",
]

END_OF_TEXT, IM_START, IM_END = 151643, 151644, 151645
AUDIO_START, AUDIO_END, AUDIO_PAD = 151669, 151670, 151676
ASR_TEXT, TIMESTAMP = 151704, 151705
VOCABULARY_SIZE = 151936  # rows of the embedding

SPECIALS = {
    "<|endoftext|>": END_OF_TEXT,
    "<|im_start|>": IM_START,
    "<|im_end|>": IM_END,
    "<|audio_start|>": AUDIO_START,
    "<|audio_end|>": AUDIO_END,
    "<|audio_pad|>": AUDIO_PAD,
    "<asr_text>": ASR_TEXT,
    "<timestamp>": TIMESTAMP,
}
#: Decoding without special tokens keeps these: the first one separates the header from the text.
_PLAIN = frozenset({"<asr_text>", "<timestamp>"})

#: What a header can name. "None" is written where there is no speech.
LANGUAGES = (
    "English", "None", "Arabic", "Cantonese", "Chinese", "Czech", "Danish", "Dutch", "Filipino",
    "Finnish", "French", "German", "Greek", "Hindi", "Hungarian", "Indonesian", "Italian",
    "Japanese", "Korean", "Macedonian", "Malay", "Persian", "Polish", "Portuguese", "Romanian",
    "Russian", "Spanish", "Swedish", "Thai", "Turkish", "Vietnamese",
)  # fmt: skip
_ROLES = ("system", "user", "assistant", "language")
_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_letters() -> dict[int, str]:
    """Return the letter that byte-level BPE writes for every byte, in the order of their ids."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in printable]
    letters = {value: chr(value) for value in printable}
    return letters | {value: chr(256 + index) for index, value in enumerate(others)}


def build_vocabulary() -> tuple[dict[str, int], list[tuple[str, str]]]:
    """
    Return the ids of all tokens but the special ones, and the merges in their order.

    Words with a space in front come first: no merge of the others may begin inside of them.
    """
    letters = byte_letters()
    vocabulary = {letter: index for index, letter in enumerate(letters.values())}
    merges: dict[tuple[str, str], None] = {}
    spaced = (f" {word}" for word in (*LANGUAGES, *DIGITS))
    for word in chain(spaced, _ROLES, DIGITS):
        spelled = "".join(letters[value] for value in word.encode())
        for length in range(1, len(spelled)):
            merges.setdefault((spelled[:length], spelled[length]))
            vocabulary.setdefault(spelled[: length + 1], len(vocabulary))
    return vocabulary, list(merges)


def _added_token(text: str) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"content": text, **flags, "special": text not in _PLAIN}


def tokenizer_json() -> dict[str, Any]:
    """Return the content of tokenizer.json."""
    vocabulary, merges = build_vocabulary()
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, **_added_token(text)} for text, number in SPECIALS.items()],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": _PATTERN},
                    "behavior": "Isolated",
                    "invert": False,
                },
                {**byte_level, "use_regex": False},
            ],
        },
        "post_processor": None,
        "decoder": {**byte_level, "use_regex": False},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {**vocabulary, **SPECIALS},
            "merges": [list(pair) for pair in merges],
        },
    }


def tokenizer_config() -> dict[str, Any]:
    """Return the content of tokenizer_config.json."""
    audio = {
        "audio_token": "<|audio_pad|>",
        "audio_bos_token": "<|audio_start|>",
        "audio_eos_token": "<|audio_end|>",
    }
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "errors": "replace",
        "add_prefix_space": False,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "model_max_length": 131_072,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": False,
        **audio,
        "extra_special_tokens": audio,
        "added_tokens_decoder": {
            str(number): _added_token(text) for text, number in SPECIALS.items()
        },
    }
