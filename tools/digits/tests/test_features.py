from __future__ import annotations

from features import fit, log_mel, mel_filters
import numpy as np
import pytest
from sounds import tone


def test_the_filter_bank_is_whispers() -> None:
    """Two figures of the filters that OpenAI publishes."""
    filters = mel_filters()

    assert filters.shape == (80, 201)
    assert filters[0, 1] == pytest.approx(0.0248626, abs=1e-6)
    assert filters.max() == pytest.approx(0.0258807, abs=1e-6)


def test_there_is_a_frame_every_ten_milliseconds() -> None:
    """A second has 100 frames, and one more for the padding after it."""
    assert log_mel(tone(440, 1.0)).shape == (80, 101)


@pytest.mark.parametrize(("zero_padded", "value"), [(True, 0.0), (False, -1.0)])
def test_padding_is_that_of_the_engine(*, zero_padded: bool, value: float) -> None:
    """faster-whisper pads features with zeros, the others pad audio with silence."""
    loudest_at_zero = np.full((80, 10), -9.0, np.float32)
    loudest_at_zero[0, 0] = 0.0

    fitted = fit(loudest_at_zero, 30, zero_padded=zero_padded)

    assert fitted.shape == (80, 30)
    assert np.all(fitted[:, 10:] == value)
    assert fitted[0, 0] == 1.0
