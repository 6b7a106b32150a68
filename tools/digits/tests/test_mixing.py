from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from mixing import Mixer, assemble
import numpy as np
import pytest
from recordings import SAMPLE_RATE
from sounds import tone

if TYPE_CHECKING:
    from recordings import Voice


def test_clips_lie_at_the_times_of_their_words() -> None:
    """Between the start and the end of a word there is its clip, elsewhere silence."""
    mixture = assemble([(3, tone(400, 0.3)), (3, tone(400, 0.2))], [0.5, 9.0], lead=0.25, tail=0.75)

    times = [(word.digit, word.start, word.end) for word in mixture.words]
    is_loud = np.abs(mixture.audio).reshape(-1, SAMPLE_RATE // 100).max(axis=1) > 0
    assert times == [(3, 0.25, 0.55), (3, 1.05, 1.25)]
    assert np.flatnonzero(is_loud).tolist() == [*range(25, 55), *range(105, 125)]
    assert len(mixture.audio) == 2.0 * SAMPLE_RATE


@pytest.mark.parametrize("seed", range(8))
def test_drawn_words_lie_in_their_audio_one_after_another(voice: Voice, seed: int) -> None:
    """However a mixture was cut, its words are in order, inside it and not empty."""
    mixer = Mixer(voices=[voice], rng=np.random.default_rng(seed))
    for seconds in (0.5, 2.0, 7.0):
        mixture = mixer.draw(seconds)

        length = len(mixture.audio) / SAMPLE_RATE
        assert length <= seconds
        assert all(0 <= word.start < word.end <= length + 1e-9 for word in mixture.words)
        assert all(word.end <= after.start for word, after in pairwise(mixture.words))


def test_the_same_seed_draws_the_same_mixture(voice: Voice) -> None:
    """A training set can be drawn again."""
    first, second = (Mixer(voices=[voice], rng=np.random.default_rng(5)).draw(4.0) for _ in "ab")

    assert first.words == second.words
    np.testing.assert_array_equal(first.audio, second.audio)


def test_repeated_words_come_as_often_as_asked(voice: Voice) -> None:
    """About a seventh of the words, and a tenth of the others by chance, repeat the one before."""
    mixer = Mixer(voices=[voice], rng=np.random.default_rng(1), negative_share=0.0)
    pairs = [pair for _ in range(60) for pair in pairwise(mixer.draw(8.0).words)]

    share = np.mean([first.digit == second.digit for first, second in pairs])

    assert share == pytest.approx(0.15 + 0.85 * 0.1, abs=0.05)
