"""At every step the incremental encoder returns what encoding everything at once would."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_qwen3_simul.engine.encoder import IncrementalEncoder

RATE = 16_000


def sounds(kind, seconds, seed):
    """Return audio whose loudest moment comes early, late, or after digital silence."""
    rng = np.random.default_rng(seed)
    audio = rng.normal(size=round(seconds * RATE)).astype(np.float32) * 1e-5
    third = len(audio) // 3
    if kind == "quiet then loud":
        audio[2 * third : 2 * third + 4000] *= 50_000
    elif kind == "silence first":
        audio[:third] = 0.0
        audio[third:] *= 10_000
    else:
        audio *= 10_000
    return audio


def full(network, audio):
    """Return all tokens of *audio*, encoded at once by a fresh encoder."""
    return vectors(IncrementalEncoder(network).encode(audio, first_sample=0))


def vectors(encoded):
    """Return the embeddings of all windows."""
    return np.concatenate([window.embeddings for window in encoded.windows])


@settings(max_examples=12)
@given(
    st.sampled_from(["loud", "quiet then loud", "silence first"]),
    st.lists(st.floats(0.02, 1.7), min_size=1, max_size=12),
    st.integers(0, 999),
)
def test_at_every_step_the_tokens_are_those_of_the_whole(toy, kind, steps, seed):
    """Neither the chunks of the audio nor the moment at which the floor rises matters."""
    network = toy()
    audio = sounds(kind, sum(steps) + 0.1, seed)
    encoder = IncrementalEncoder(network)
    end = 0
    for step in steps:
        end += max(1, round(step * RATE))
        encoded = encoder.encode(audio[:end], first_sample=0)

        assert full(network, audio[:end]) == pytest.approx(vectors(encoded), abs=1e-5)


def test_a_closed_window_is_encoded_once_while_the_floor_stays(toy):
    """Calls return the same objects, and their work does not grow with the utterance."""
    network = toy()
    audio = sounds("loud", 30.0, 1)
    encoder = IncrementalEncoder(network)
    before = ()
    frames = []
    for second in range(1, 31):
        encoded = encoder.encode(audio[: second * RATE], first_sample=0)
        assert all(old is new for old, new in zip(before, encoded.closed, strict=False))
        before = encoded.closed
        frames.append(encoded.frames)

    assert sum(frames) == 100 * network.encoded
    assert max(frames[2:16]) >= max(frames[16:])
    assert len(before) == 15


@pytest.mark.parametrize("more", [1, 30, 200, 16_000])
def test_a_cut_leaves_the_other_windows_as_they_are(toy, more):
    """
    After a cut the tokens are those of the whole utterance without the first ones.

    The last frame before a cut at the end of the audio becomes final only when more audio follows.
    """
    network = toy()
    audio = sounds("loud", 7.0, 6)[: 6 * RATE + more]
    encoder = IncrementalEncoder(network)
    before = encoder.encode(audio[: 6 * RATE], first_sample=0)
    after = encoder.encode(audio[4 * RATE :], first_sample=4 * RATE)
    last = encoder.encode(audio[6 * RATE :], first_sample=6 * RATE)
    whole = full(network, audio)

    assert after.closed[0] is before.closed[2]
    assert whole[2 * 26 :] == pytest.approx(vectors(after), abs=1e-5)
    assert last.tokens == len(whole) - 3 * 26
    if last.tokens:
        assert whole[3 * 26 :] == pytest.approx(vectors(last), abs=1e-5)
