"""Scores of heads: hits in the word under both conventions, less what chance would have hit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core import OptionError
from wlk_qwen3_simul.audio.frames import token_count
from wlk_qwen3_simul.detect.scores import TOLERANCE, Scores, best_heads, hits, token_seconds
from wlk_qwen3_simul.detect_heads import choose

AUDIO = token_count(600)  # tokens of six seconds
SPANS = [(0.2, 0.6), (0.9, 1.3), (1.3, 1.3 + 0.4), (3.1, 3.5), (5.0, 5.6)]


def looking(places, *, audio=AUDIO):
    """Return float32[tokens + 1, audio]: rows that look at the audio of these times."""
    rows = np.full((len(places), audio), 0.1 / audio, np.float32)
    middles = token_seconds(audio).mean(axis=1)
    for row, place in zip(rows, places, strict=True):
        row[np.abs(middles - place).argmin()] += 0.9
    return rows


def middles():
    """Return the middles of the words."""
    return [(start + end) / 2 for start, end in SPANS]


@given(st.integers(1, 2000))
def test_audio_tokens_follow_one_another_without_gaps(count):
    """Each stands for 80 ms, the last of a second for 40."""
    times = token_seconds(count)

    assert (times[1:, 0] == times[:-1, 1]).all()
    assert times[0, 0] == 0
    lengths = np.round(times[:, 1] - times[:, 0], 6)
    assert {0.04} == set(lengths[12::13]) or count < 13
    assert {0.08} == set(np.delete(lengths, np.s_[12::13]))


def test_looking_at_a_word_or_right_beside_it_is_a_hit():
    """Beside it means up to an audio token away."""
    times = token_seconds(AUDIO)
    near = hits(times, (1.0, 1.4))
    found = times[near].mean(axis=1)

    assert found.min() >= 1.0 - TOLERANCE
    assert found.max() <= 1.4 + TOLERANCE
    assert 8 == near.sum()


@pytest.mark.parametrize(
    ("row", "places"), [("predict", [*middles(), 0]), ("self", [0, *middles()])]
)
def test_both_conventions_are_scored_and_the_better_one_is_told(row, places):
    """A head that looks at each word when it predicts it is far off at the row it is fed at."""
    scores = Scores.none(2, 3)
    attention = np.stack([np.stack([looking([3.0] * 6)] * 3)] * 2)
    attention[1, 2] = looking(places)
    scores.add(attention, SPANS)
    told, heads = best_heads(scores, most=5, least=0.8)

    assert row == told
    assert [(1, 2, 1.0)] == [(one.layer, one.head, one.score) for one in heads]


@given(st.integers(0, 2**32 - 1))
def test_looking_anywhere_scores_about_nothing(seed):
    """Chance is what the width of the words makes it, clip by clip."""
    rng = np.random.default_rng(seed)
    scores = Scores.none(4, 4)
    for _ in range(60):
        scores.add(rng.random((4, 4, len(SPANS) + 1, AUDIO), np.float32), SPANS)

    assert abs(scores.corrected("predict").mean()) < 0.04
    assert abs(scores.corrected("self").mean()) < 0.04
    assert 0.09 < scores.chance < 0.13


def test_long_words_are_hit_by_chance_and_count_for_less():
    """A head that always looks at the middle of a clip of one word knows nothing."""
    scores = Scores.none(1, 1)
    audio = token_count(100)
    scores.add(looking([0.5, 0.5], audio=audio)[None, None], [(0.0, 1.0)])

    assert 1 == scores.hits["predict"][0, 0]
    assert 1.0 == scores.chance
    assert 0.0 == scores.corrected("predict")[0, 0]


def test_a_clip_without_words_changes_nothing():
    """There is no token to look for."""
    scores = Scores.none(1, 2)
    scores.add(np.ones((1, 2, 1, AUDIO), np.float32), [])

    assert 0 == scores.tokens
    assert 0.0 == scores.chance


def test_heads_far_behind_the_best_are_left_out():
    """So that the average is theirs who know."""
    scores = Scores.none(1, 3)
    half = [*middles()[:2], 0, 0, 0, 0]
    rows = np.stack([looking([*middles(), 0]), looking(half), looking([*middles(), 0])])
    scores.add(rows[None], SPANS)
    _, heads = best_heads(scores, most=5, least=0.8)
    _, best = best_heads(scores, most=1, least=0.8)

    assert [(0, 0), (0, 2)] == [(one.layer, one.head) for one in heads]
    assert heads[:1] == best


def test_a_model_whose_heads_look_anywhere_has_none():
    """The message says what to check."""
    scores = Scores.none(1, 2)
    scores.add(np.stack([looking([5.9] * 6)] * 2)[None], SPANS)

    with pytest.raises(OptionError, match=r"no head of mine looks at the word.*word times"):
        choose(scores, "mine", clips=1)


def test_what_is_chosen_says_where_it_comes_from():
    """How many tokens and clips, and what chance would have hit."""
    scores = Scores.none(1, 2)
    scores.add(np.stack([looking([*middles(), 0])] * 2)[None], SPANS)
    found = choose(scores, "mine", clips=1)

    assert ("mine", 1, 2, "predict") == (found.model, found.layers, found.heads, found.row)
    assert "5 tokens of 1 clips" in found.source
    assert 0 < found.chance < 0.2
