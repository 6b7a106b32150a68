"""The few tokens of Qwen3-ASR's vocabulary that digits need, and their compact numbering."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from vocabulary import DIGITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The shipped checkpoint; training writes new weights for its tokenizer.
BUNDLED = Path(__file__).parents[2] / "plugins/wlk-qwen3-simul/src/wlk_qwen3_simul/digits"


def _read(name: str) -> Any:
    return json.loads((BUNDLED / name).read_text(encoding="utf-8"))


_CONFIG = _read("config.json")
VOCABULARY_SIZE = _CONFIG["text_config"]["vocab_size"]  # rows of the embedding
#: The languages that a header can name; "None" stands for no speech.
LANGUAGES = ("English", "None", *_CONFIG["support_languages"][1:])
_SPECIALS = {token["content"]: token["id"] for token in _read("tokenizer.json")["added_tokens"]}
IDS: dict[str, int] = {**_read("vocab.json"), **_SPECIALS}  #: id of every token
_ROLES = ("system", "user", "assistant", "language")
_NEWLINE = "Ċ"  # as byte-level BPE writes it

#: Full id of each compact id: words with a space, words at the start of text, languages, the rest.
FULL_IDS = (
    *(IDS[f"Ġ{word}"] for word in DIGITS),
    *(IDS[word] for word in DIGITS),
    *(IDS[f"Ġ{name}"] for name in LANGUAGES),
    *(IDS[role] for role in _ROLES),
    IDS[_NEWLINE],
    *(IDS[f"<|{name}|>"] for name in ("endoftext", "im_start", "im_end")),
    *(IDS[f"<|audio_{name}|>"] for name in ("start", "end", "pad")),
    IDS["<asr_text>"],
)
_COMPACT = {full: index for index, full in enumerate(FULL_IDS)}

#: Stands for every token that is never used: their rows are all equal.
OTHER = len(FULL_IDS)
COMPACT_SIZE = OTHER + 1
#: What is added to the logit of OTHER, because it stands for so many tokens.
LOG_UNUSED = math.log(VOCABULARY_SIZE - len(FULL_IDS))

WORDS = tuple(range(10))  # " zero" ... " nine"
FIRST_WORDS = tuple(range(10, 20))  # "zero" ... "nine": text begins without a space
NAMES = tuple(_COMPACT[IDS[f"Ġ{name}"]] for name in LANGUAGES)  # English, None, others
PAD = _COMPACT[IDS["<|audio_pad|>"]]
END = _COMPACT[IDS["<|im_end|>"]]
_SYSTEM, _USER, _ASSISTANT, _LANGUAGE = (_COMPACT[IDS[role]] for role in _ROLES)
_BREAK = _COMPACT[IDS[_NEWLINE]]
_START = _COMPACT[IDS["<|im_start|>"]]

#: The tokens between the audio and the header.
SUFFIX = (_COMPACT[IDS["<|audio_end|>"]], END, _BREAK, _START, _ASSISTANT, _BREAK)


def prefix(prompt: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Return the tokens before the audio, with a prompt of compact ids."""
    opening = (_START, _SYSTEM, _BREAK, *prompt, END, _BREAK)
    return (*opening, _START, _USER, _BREAK, _COMPACT[IDS["<|audio_start|>"]])


def header(language: int) -> tuple[int, ...]:
    """Return the header that names a language by its compact id."""
    return (_LANGUAGE, language, _COMPACT[IDS["<asr_text>"]])


def expand(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the full embedding of compact rows."""
    full = np.repeat(rows[OTHER:], VOCABULARY_SIZE, axis=0)
    full[list(FULL_IDS)] = rows[:OTHER]
    return full
