from __future__ import annotations

import numpy as np
import pytest
from vocabulary import (
    COMPACT_SIZE,
    DIGITS,
    FULL_IDS,
    FULL_SIZE,
    WORD_IDS,
    compact,
    expand,
    timestamp_id,
)


def test_every_compact_token_keeps_its_row() -> None:
    """Expanding puts the row of each compact token at its full id."""
    rows = np.arange(COMPACT_SIZE + 1, dtype=np.float32)[:, None]

    full = expand(rows)

    assert full.shape == (FULL_SIZE, 1)
    assert [compact(token) for token in FULL_IDS] == full[list(FULL_IDS), 0].tolist()


def test_every_unused_token_has_the_same_row() -> None:
    """Rows that were never trained are all the last compact row, so that they compress away."""
    rows = np.arange(COMPACT_SIZE + 1, dtype=np.float32)[:, None]
    is_unused = np.ones(FULL_SIZE, bool)
    is_unused[list(FULL_IDS)] = False

    assert np.all(expand(rows)[is_unused] == COMPACT_SIZE)


def test_words_are_distinct_tokens() -> None:
    """Each digit has one token of its own."""
    assert len(DIGITS) == len(set(WORD_IDS))


def test_a_row_too_few_is_rejected() -> None:
    """A table without the unused row is no compact embedding."""
    with pytest.raises(ValueError, match="rows"):
        expand(np.zeros((COMPACT_SIZE, 4), np.float32))


@pytest.mark.parametrize(("seconds", "token"), [(0.0, 50364), (0.51, 50364 + 26), (99.0, 51864)])
def test_timestamps_are_rounded_into_the_window(seconds: float, token: int) -> None:
    """A time becomes the nearest of the 1501 timestamp tokens."""
    assert token == timestamp_id(seconds)
