from __future__ import annotations

from features import fit, mel_filters
import numpy as np
import pytest


def test_the_filter_bank_is_whispers() -> None:
    """Two figures of the filters that OpenAI publishes."""
    filters = mel_filters()

    assert filters.shape == (80, 201)
    assert filters[0, 1] == pytest.approx(0.0248626, abs=1e-6)
    assert filters.max() == pytest.approx(0.0258807, abs=1e-6)


@pytest.mark.parametrize(("zero_padded", "value"), [(True, 0.0), (False, -1.0)])
def test_padding_is_that_of_the_engine(*, zero_padded: bool, value: float) -> None:
    """faster-whisper pads features with zeros, the others pad audio with silence."""
    loudest_at_zero = np.full((80, 10), -9.0, np.float32)
    loudest_at_zero[0, 0] = 0.0

    fitted = fit(loudest_at_zero, 30, zero_padded=zero_padded)

    assert fitted.shape == (80, 30)
    assert np.all(fitted[:, 10:] == value)
    assert fitted[0, 0] == 1.0
