"""Log-mel frames equal those of transformers, in whatever chunks the audio arrives."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_qwen3_simul.engine.frames import FRAME_SECONDS, frame_of_token, token_count
from wlk_qwen3_simul.engine.mel import MelStream, normalise


def frames_of(chunks, *, bands=128):
    """Return a stream that has received *chunks*, and all of its frames so far."""
    stream = MelStream(bands)
    for chunk in chunks:
        stream.push(chunk)
    return stream, np.concatenate([stream.between(0, stream.final), stream.provisional()], axis=1)


@pytest.mark.parametrize("samples", [1, 150, 200, 201, 360, 7999, 8000, 16_000, 16_161, 50_000])
def test_frames_are_those_of_transformers(samples):
    """Audio may have any length, even shorter than a frame or than the length it is padded to."""
    pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
    transformers = pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")
    audio = np.random.default_rng(samples).normal(size=samples).astype(np.float32) * 0.1
    theirs = transformers.Qwen3ASRFeatureExtractor()(
        audio, sampling_rate=16_000, padding=True, return_tensors="np", n_window=0
    )["input_features"][0]
    _, log_mel = frames_of([audio])

    assert log_mel.shape == theirs.shape
    assert normalise(log_mel, float(log_mel.max())) == pytest.approx(theirs, abs=2e-5)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 4000), min_size=1, max_size=12), st.integers(0, 99))
def test_frames_do_not_depend_on_how_the_audio_was_cut(lengths, seed):
    """Final frames never change, and provisional ones are those of the audio so far."""
    audio = np.random.default_rng(seed).normal(size=sum(lengths)).astype(np.float32)
    chunks = np.split(audio, np.cumsum(lengths)[:-1])
    _, whole = frames_of([audio], bands=20)
    _, pieces = frames_of(chunks, bands=20)

    assert whole == pytest.approx(pieces, abs=1e-6)


@pytest.mark.parametrize(
    ("frames", "tokens"), [(1, 1), (8, 1), (9, 2), (99, 13), (100, 13), (101, 14), (800, 104)]
)
def test_a_second_has_thirteen_tokens_and_a_rest_one_for_every_80_ms(frames, tokens):
    """The last token of a second stands for half a stride; all tokens start at exact times."""
    seconds = frame_of_token(tokens) * FRAME_SECONDS

    assert token_count(frames) == tokens
    assert seconds == pytest.approx(tokens // 13 + 0.08 * (tokens % 13))
