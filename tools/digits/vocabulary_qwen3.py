"""The few tokens of Qwen3-ASR's vocabulary that digits need, and their compact numbering."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from tokenizer_qwen3 import (
    ASR_TEXT,
    AUDIO_END,
    AUDIO_PAD,
    AUDIO_START,
    END_OF_TEXT,
    IM_END,
    IM_START,
    LANGUAGES,
    VOCABULARY_SIZE,
    build_vocabulary,
)
from vocabulary import DIGITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "COMPACT_SIZE",
    "END",
    "FIRST_WORDS",
    "FULL_IDS",
    "LOG_UNUSED",
    "NAMES",
    "OTHER",
    "PAD",
    "SUFFIX",
    "WORDS",
    "expand",
    "header",
    "prefix",
]

_IDS = build_vocabulary()[0]
_ROLES = ("system", "user", "assistant", "language")
_NEWLINE = "Ċ"  # as byte-level BPE writes it

#: Full id of each compact id: words with a space, words that begin a text, languages, the rest.
FULL_IDS = (
    *(_IDS[f"Ġ{word}"] for word in DIGITS),
    *(_IDS[word] for word in DIGITS),
    *(_IDS[f"Ġ{name}"] for name in LANGUAGES),
    *(_IDS[role] for role in _ROLES),
    _IDS[_NEWLINE],
    *(END_OF_TEXT, IM_START, IM_END, AUDIO_START, AUDIO_END, AUDIO_PAD, ASR_TEXT),
)
_COMPACT = {full: index for index, full in enumerate(FULL_IDS)}

#: Stands for every token that is never used: their rows are all equal.
OTHER = len(FULL_IDS)
COMPACT_SIZE = OTHER + 1
#: What the logit of OTHER grows by when all the tokens it stands for are distinguished.
LOG_UNUSED = math.log(VOCABULARY_SIZE - len(FULL_IDS))

WORDS = tuple(range(10))  # " zero" ... " nine"
FIRST_WORDS = tuple(range(10, 20))  # "zero" ... "nine": a text begins without a space
NAMES = tuple(_COMPACT[_IDS[f"Ġ{name}"]] for name in LANGUAGES)  # English, None, others
PAD = _COMPACT[AUDIO_PAD]
END = _COMPACT[IM_END]
_SYSTEM, _USER, _ASSISTANT, _LANGUAGE = (_COMPACT[_IDS[role]] for role in _ROLES)
_BREAK = _COMPACT[_IDS[_NEWLINE]]
_START = _COMPACT[IM_START]

#: What lies between the audio and the header.
SUFFIX = (_COMPACT[AUDIO_END], END, _BREAK, _START, _ASSISTANT, _BREAK)


def prefix(prompt: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Return what lies before the audio, with a prompt of compact ids."""
    opening = (_START, _SYSTEM, _BREAK, *prompt, END, _BREAK)
    return (*opening, _START, _USER, _BREAK, _COMPACT[AUDIO_START])


def header(language: int) -> tuple[int, ...]:
    """Return the header that names a language by its compact id."""
    return (_LANGUAGE, language, _COMPACT[ASR_TEXT])


def expand(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the full embedding of compact rows."""
    if len(rows) != COMPACT_SIZE:
        raise ValueError(f"expected {COMPACT_SIZE} rows, got {len(rows)}")
    full = np.repeat(rows[OTHER:], VOCABULARY_SIZE, axis=0)
    full[list(FULL_IDS)] = rows[:OTHER]
    return full
