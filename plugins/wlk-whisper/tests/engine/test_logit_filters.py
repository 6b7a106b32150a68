"""Which tokens may follow which."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from .toy import EOT, make_filter
from .toy import TIMESTAMPS as BEGIN

texts = st.lists(st.integers(0, 39).filter(lambda token: not 20 <= token < 25), max_size=8)


def new_filter(*, has_timestamps):
    """Return a filter that allows no text to begin with the end or a blank, token 5."""
    return make_filter(begin_suppress_tokens=np.array([EOT, 5]), has_timestamps=has_timestamps)


def allowed(tokens, *, has_timestamps=True, seed=0):
    """Return the ids that may follow *tokens*."""
    logits = np.random.default_rng(seed).normal(size=40).astype(np.float32)
    logit_filter = new_filter(has_timestamps=has_timestamps)
    return set(np.flatnonzero(np.isfinite(logit_filter.logprobs(logits, tokens))))


@given(texts, st.booleans(), st.integers(0, 50))
def test_the_filtered_logits_are_a_distribution(tokens, has_timestamps, seed):
    """Probabilities sum to one, the logits do not change, special tokens are never allowed."""
    logits = np.random.default_rng(seed).normal(size=40).astype(np.float32) * 10
    before = logits.copy()
    logprobs = new_filter(has_timestamps=has_timestamps).logprobs(logits, tokens)

    np.testing.assert_array_equal(before, logits)
    assert np.exp(logprobs.astype(np.float64)).sum() == pytest.approx(1.0, abs=1e-5)
    assert not np.isfinite(logprobs[[3, 7, 21, 22, 23, 24]]).any()


@given(texts)
def test_without_timestamps_no_timestamp_is_allowed(tokens):
    """A filter without timestamps allows ids below the first timestamp only."""
    assert max(allowed(tokens, has_timestamps=False)) < BEGIN


def test_the_first_token_is_neither_blank_nor_the_end():
    """Tokens of begin_suppress_tokens are allowed everywhere but at the beginning."""
    assert not {EOT, 5} & allowed([], has_timestamps=False)
    assert {EOT, 5} <= allowed([1], has_timestamps=False)


def test_a_transcript_with_timestamps_begins_with_an_early_one():
    """The first segment begins within the first second."""
    assert allowed([]) == set(range(BEGIN, BEGIN + 5))


@given(texts, st.integers(0, 20))
def test_timestamps_never_decrease(tokens, seed):
    """No allowed timestamp is smaller than the newest one."""
    newest = next((token for token in reversed(tokens) if token >= BEGIN), None)
    later = {token for token in allowed(tokens, seed=seed) if token >= BEGIN}

    assert newest is None or not later or newest <= min(later)


def test_timestamps_come_in_pairs():
    """A segment that ended is followed by the start of the next, or by the end of the text."""
    assert allowed([26, 1, 30]) <= {EOT, *range(30, 40)}
    assert max(allowed([26, 1, 30, 30])) < BEGIN
    assert max(allowed([26])) < BEGIN
    assert EOT in allowed([26, 1, 30, 30])


@pytest.mark.parametrize(("logit", "is_timestamp"), [(1.0, False), (4.0, True)])
def test_timestamps_likelier_together_than_every_word_are_chosen(logit, is_timestamp):
    """Fifteen timestamps of logit 4 outweigh a word of logit 5; fifteen of logit 1 do not."""
    logits = np.full(40, -9.0, dtype=np.float32)
    logits[1] = 5.0
    logits[BEGIN:] = logit
    logprobs = new_filter(has_timestamps=True).logprobs(logits, [26, 2])

    assert (logprobs.argmax() >= BEGIN) == is_timestamp
    assert (not np.isfinite(logprobs[:BEGIN]).any()) == is_timestamp
