"""The few tokens of Whisper's vocabulary that digits need, and their compact numbering."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

#: " zero" ... " nine": with its leading space, each is a single token of multilingual.tiktoken.
WORD_IDS = (4018, 472, 732, 1045, 1451, 1732, 2309, 3407, 3180, 4949)

END_OF_TEXT = 50257
START_OF_TRANSCRIPT = 50258
ENGLISH = 50259
TRANSCRIBE = 50359
START_OF_PREVIOUS = 50361
NO_SPEECH = 50362
NO_TIMESTAMPS = 50363
FIRST_TIMESTAMP = 50364
TIMESTAMPS = 1501  # <|0.00|> ... <|30.00|> in steps of 20 ms
FULL_SIZE = 51865

#: Full id of each compact id: the words first, then every special token.
FULL_IDS = (*WORD_IDS, *range(END_OF_TEXT, FULL_SIZE))
COMPACT_SIZE = len(FULL_IDS)
#: Tokens that are never used: their rows are all equal, so one row stands for them in training.
UNUSED_SIZE = FULL_SIZE - COMPACT_SIZE

_COMPACT = {full: index for index, full in enumerate(FULL_IDS)}


def compact(full_id: int) -> int:
    """Return the compact number of a full id; KeyError for a token that is never used."""
    return _COMPACT[full_id]


def expand(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the full embedding of compact rows, whose last row is that of every unused token."""
    full = np.repeat(rows[-1:], FULL_SIZE, axis=0)
    full[list(FULL_IDS)] = rows[:-1]
    return full


def timestamp_id(seconds: float) -> int:
    """Return the full id of the timestamp nearest to a time inside the window."""
    return FIRST_TIMESTAMP + min(max(round(seconds / 0.02), 0), TIMESTAMPS - 1)
