from __future__ import annotations

import numpy as np
from vocabulary import (
    COMPACT_SIZE,
    FULL_IDS,
    FULL_SIZE,
    compact,
    expand,
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
