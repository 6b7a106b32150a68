"""Coded audio contains its tokens exactly, in any slice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.testing import CELL_SAMPLES, CodedToken, encode, noise, read_tokens


@st.composite
def scripts(draw):
    """Return tokens one after the other, with and without gaps."""
    tokens, cell = [], draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 8))):
        token = CodedToken(draw(st.integers(1, 511)), cell, draw(st.integers(1, 12)))
        tokens.append(token)
        cell += token.cells + draw(st.integers(0, 2))
    return tokens


@given(scripts())
def test_reading_gives_back_what_was_coded(tokens):
    """Ids, starts and ends come back exactly."""
    detected = read_tokens(encode(tokens))

    assert [d.id for d in detected] == [t.id for t in tokens]
    assert [d.start for d in detected] == [t.start * CELL_SAMPLES for t in tokens]
    assert [d.end for d in detected] == [(t.start + t.cells) * CELL_SAMPLES for t in tokens]


@given(scripts(), st.integers(0, 20_000))
def test_any_slice_contains_the_origins_of_its_tokens(tokens, start):
    """A buffer trimmed anywhere still gives the true origins."""
    audio = encode(tokens)
    detected = read_tokens(audio[start:])
    origins = {(t.id, t.start * CELL_SAMPLES - start) for t in tokens}

    assert {(d.id, d.origin) for d in detected} <= origins
    assert all(d.start == max(0, d.origin) for d in detected)


@given(st.integers(0, 50))
def test_noise_contains_no_token(seed):
    """Tokens are detected in coded audio only."""
    assert read_tokens(noise(2.0, level=0.3, seed=seed)) == []
    assert read_tokens(np.zeros(10_000, dtype=np.float32)) == []


def test_overlapping_tokens_are_refused():
    """Two tokens cannot be spoken at once."""
    with pytest.raises(ValueError, match="before cell 5"):
        encode([CodedToken(1, 0, 5), CodedToken(2, 4, 2)])
