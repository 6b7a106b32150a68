"""Which tokens may follow which."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_whisper.decoder.rules import Rules

EOT, BEGIN = 20, 25
said_before = st.lists(st.integers(0, 39).filter(lambda token: not 20 <= token < 25), max_size=8)


def rules(*, has_timestamps):
    """Return rules for a vocabulary of 40: 20 words, specials, 15 timestamps."""
    return Rules(
        sot=21,
        eot=EOT,
        no_speech=22,
        timestamp_begin=BEGIN,
        suppressed=np.array([3, 21, 22, 23, 24]),
        begin_suppressed=np.array([EOT, 5]),
        has_timestamps=has_timestamps,
        max_initial_timestamp=4,
    )


def allowed(said, *, has_timestamps=True, seed=0):
    """Return the ids that may follow *said*."""
    logits = np.random.default_rng(seed).normal(size=40).astype(np.float32)
    its_rules = rules(has_timestamps=has_timestamps)
    return set(np.flatnonzero(np.isfinite(its_rules.log_probs(logits, said))))


@given(said_before, st.booleans(), st.integers(0, 50))
def test_what_is_left_is_a_distribution(said, has_timestamps, seed):
    """Probabilities add up to one, the logits stay as they were, specials are never allowed."""
    logits = np.random.default_rng(seed).normal(size=40).astype(np.float32) * 10
    before = logits.copy()
    log_probs = rules(has_timestamps=has_timestamps).log_probs(logits, said)

    np.testing.assert_array_equal(before, logits)
    assert 1.0 == pytest.approx(np.exp(log_probs.astype(np.float64)).sum(), abs=1e-5)
    assert not np.isfinite(log_probs[[3, 21, 22, 23, 24]]).any()


@given(said_before)
def test_without_timestamps_none_is_said(said):
    """The prompt asked for none."""
    assert max(allowed(said, has_timestamps=False)) < BEGIN


def test_the_first_token_is_neither_blank_nor_the_end():
    """What begins nothing is not allowed at the beginning, and is allowed behind it."""
    assert not {EOT, 5} & allowed([], has_timestamps=False)
    assert {EOT, 5} <= allowed([1], has_timestamps=False)


def test_a_transcript_with_timestamps_begins_with_an_early_one():
    """The first segment begins within the first second."""
    assert set(range(BEGIN, BEGIN + 5)) == allowed([])


@given(said_before, st.integers(0, 20))
def test_timestamps_never_go_back(said, seed):
    """None is smaller than the newest one."""
    newest = max((token for token in said[-1:] if token >= BEGIN), default=None)
    newest = next((token for token in reversed(said) if token >= BEGIN), newest)
    later = {token for token in allowed(said, seed=seed) if token >= BEGIN}

    assert newest is None or not later or newest <= min(later)


def test_timestamps_come_in_pairs():
    """A segment that ended is followed by the start of the next, or by the end of the text."""
    assert allowed([26, 1, 30]) <= {EOT, *range(30, 40)}
    assert max(allowed([26, 1, 30, 30])) < BEGIN
    assert max(allowed([26])) < BEGIN
    assert EOT in allowed([26, 1, 30, 30])


@pytest.mark.parametrize(("lift", "is_timestamp"), [(1.0, False), (4.0, True)])
def test_timestamps_that_outweigh_every_word_together_are_taken(lift, is_timestamp):
    """Fifteen times half is more than the likeliest word, fifteen times little is not."""
    logits = np.full(40, -9.0, dtype=np.float32)
    logits[1] = 5.0
    logits[BEGIN:] = lift
    log_probs = rules(has_timestamps=True).log_probs(logits, [26, 2])

    assert is_timestamp == (log_probs.argmax() >= BEGIN)
    assert is_timestamp == (not np.isfinite(log_probs[:BEGIN]).any())
