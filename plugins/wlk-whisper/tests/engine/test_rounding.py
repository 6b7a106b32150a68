"""Choices that rounding may decide are refused, and all others hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_whisper.engine.decoding import DecodingResult
from wlk_whisper.engine.engine import contains_no_speech
from wlk_whisper.engine.logit_filters import LogitFilter
from wlk_whisper.engine.network import ALONE, ChoiceTooClose, Rounding
from wlk_whisper.engine.timing import token_boundaries

COARSE = Rounding(margin=0.5, attention=0.01)


def attention(seed, *, heads=3, rows=8, frames=30):
    """Return softmax weights float32[heads, rows, frames]: a text along the audio, and noise."""
    random = np.random.default_rng(seed)
    distance = np.arange(frames) - np.linspace(0, frames, rows)[:, None]
    scores = -np.square(distance / 3) + random.normal(size=(heads, rows, frames))
    weights = np.exp(scores)
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


@given(st.integers(0, 2**32), st.integers(0, 2**32), st.floats(1e-4, 0.05))
def test_boundaries_that_hold_are_those_of_any_attention_within_the_rounding(seed, other, share):
    """Where they might differ, the alignment is refused."""
    weights = attention(seed)[..., :28]
    noise = np.random.default_rng(other).uniform(1 - share / 2, 1 + share / 2, weights.shape)
    expected = token_boundaries(weights, first_row=1)
    try:
        boundaries = token_boundaries(weights, first_row=1, rounding=Rounding(attention=share))
    except ChoiceTooClose:
        return

    assert expected.tolist() == boundaries.tolist()
    varied = (weights * noise).astype(np.float32)
    assert expected.tolist() == token_boundaries(varied, first_row=1).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_fine_rounding_refuses_few_alignments(seed):
    """An alignment with clear boundaries holds; one of equal costs does not."""
    fine = Rounding(attention=1e-6)
    even = np.full((3, 8, 30), 1 / 30, dtype=np.float32)
    even[:, ::2] *= 1 + 1e-6

    assert len(token_boundaries(attention(seed), first_row=1, rounding=fine)) == 6
    with pytest.raises(ChoiceTooClose, match="another encoder frame"):
        token_boundaries(even, first_row=1, rounding=fine)


@pytest.mark.parametrize("lead", [0.3, -0.3, 2.0, -2.0])
def test_text_and_timestamps_that_are_close_are_refused(lead):
    """All timestamps together compete with the likeliest text token."""
    logit_filter = LogitFilter(
        sot=1,
        eot=0,
        no_speech=2,
        timestamp_begin=6,
        suppress_tokens=np.array([1, 2]),
        begin_suppress_tokens=np.array([0]),
        has_timestamps=True,
    )
    logits = np.full(8, -20.0, dtype=np.float32)
    logits[4], logits[7] = 3.0, 3.0 + lead
    tokens = (6, 3)
    if abs(lead) < COARSE.margin:
        with pytest.raises(ChoiceTooClose):
            logit_filter.logprobs(logits, tokens, rounding=COARSE)
    expected = logit_filter.logprobs(logits, tokens)

    assert (lead > 0) == (int(expected.argmax()) == 7)
    if abs(lead) > COARSE.margin:
        np.testing.assert_array_equal(
            expected, logit_filter.logprobs(logits, tokens, rounding=COARSE)
        )


@pytest.mark.parametrize(("probability", "is_close"), [(0.9, True), (0.1, False)])
def test_a_probability_of_no_speech_at_its_threshold_is_refused(probability, is_close):
    """Alone, every probability decides."""
    fields = {"tokens": (), "forced": 3, "logprobs": np.zeros(0), "work": None}
    fields |= {"cross_attention": None, "has_ended": True, "loop": None}
    result, alone = (
        DecodingResult(no_speech_prob=probability, rounding=rounding, **fields)
        for rounding in (COARSE, ALONE)
    )

    assert not contains_no_speech(alone)
    if is_close:
        with pytest.raises(ChoiceTooClose):
            contains_no_speech(result)
    else:
        assert not contains_no_speech(result)
