from __future__ import annotations

from features import fit
import numpy as np
import pytest


@pytest.mark.parametrize(("zero_padded", "value"), [(True, 0.0), (False, -1.0)])
def test_padding_is_that_of_the_engine(*, zero_padded: bool, value: float) -> None:
    """faster-whisper pads features with zeros, the others pad audio with silence."""
    loudest_at_zero = np.full((80, 10), -9.0, np.float32)
    loudest_at_zero[0, 0] = 0.0

    fitted = fit(loudest_at_zero, 30, zero_padded=zero_padded)

    assert fitted.shape == (80, 30)
    assert np.all(fitted[:, 10:] == value)
    assert fitted[0, 0] == 1.0
