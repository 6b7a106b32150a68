"""Scores of heads: hits under both conventions, corrected for chance."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_qwen3_simul.detect_heads.scores import Scores, choose, token_seconds
from wlk_qwen3_simul.engine.frames import token_count

AUDIO = token_count(600)  # audio tokens of six seconds
SPANS = [(0.2, 0.6), (0.9, 1.3), (1.3, 1.3 + 0.4), (3.1, 3.5), (5.0, 5.6)]


def attention_to(seconds, *, audio=AUDIO):
    """Return float32[tokens + 1, audio], whose rows attend to the audio at these times."""
    rows = np.full((len(seconds), audio), 0.1 / audio, np.float32)
    times = token_seconds(audio).mean(axis=1)
    for row, time in zip(rows, seconds, strict=True):
        row[np.abs(times - time).argmin()] += 0.9
    return rows


def middles():
    """Return the middles of the words."""
    return [(start + end) / 2 for start, end in SPANS]


@pytest.mark.parametrize(
    ("row", "seconds"), [("predict", [*middles(), 0]), ("self", [0, *middles()])]
)
def test_both_conventions_are_scored_and_the_better_one_is_returned(row, seconds):
    """A head that attends to a word when predicting it is wrong at the step whose input it is."""
    scores = Scores.zero(2, 3)
    attention = np.stack([np.stack([attention_to([3.0] * 6)] * 3)] * 2)
    attention[1, 2] = attention_to(seconds)
    scores.add(attention, SPANS)
    found = choose(scores, "mine", clips=1)

    assert found.row == row
    assert [(head.layer, head.head, head.score) for head in found.best] == [(1, 2, 1.0)]


@given(st.integers(0, 2**32 - 1))
def test_random_attention_scores_about_zero(seed):
    """The chance of a hit follows from the width of the words in each clip."""
    rng = np.random.default_rng(seed)
    scores = Scores.zero(4, 4)
    for _ in range(60):
        scores.add(rng.random((4, 4, len(SPANS) + 1, AUDIO), np.float32), SPANS)

    assert abs(scores.corrected("predict").mean()) < 0.04
    assert abs(scores.corrected("self").mean()) < 0.04
    assert 0.09 < scores.chance < 0.13


def test_heads_far_below_the_best_are_left_out():
    """They would spoil the average over the better heads."""
    scores = Scores.zero(1, 3)
    half = [*middles()[:2], 0, 0, 0, 0]
    all_words = [*middles(), 0]
    rows = np.stack([attention_to(all_words), attention_to(half), attention_to(all_words)])
    scores.add(rows[None], SPANS)

    assert choose(scores, "mine", clips=1).pairs == ((0, 0), (0, 2))
