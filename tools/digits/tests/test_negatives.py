from __future__ import annotations

from typing import TYPE_CHECKING

from mixing import Mixer
from negatives import NEGATIVES, draw_negative
import numpy as np
import pytest

if TYPE_CHECKING:
    from recordings import Voice


@pytest.mark.parametrize("kind", NEGATIVES)
def test_every_kind_is_finite_and_as_long_as_asked(kind: str) -> None:
    """A sound without words has the asked length and no overflow at any seed."""
    for seed in range(5):
        sound = NEGATIVES[kind](4000, np.random.default_rng(seed))

        assert sound.shape == (4000,)
        assert np.isfinite(sound).all(), f"seed {seed}"


def test_negatives_fit_into_samples() -> None:
    """What is drawn never exceeds full scale."""
    rng = np.random.default_rng(0)

    assert all(np.abs(draw_negative(2000, rng)).max() <= 1 for _ in range(40))


def test_negatives_carry_no_words(voice: Voice) -> None:
    """A mixer that draws nothing but negatives contains no words."""
    mixer = Mixer(voices=[voice], rng=np.random.default_rng(0), negative_share=1.0)

    assert all(mixer.draw(1.0).words == () for _ in range(20))
