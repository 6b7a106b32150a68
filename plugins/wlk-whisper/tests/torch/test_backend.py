"""Whisper on torch as a backend: the words of faster-whisper, and what it refuses."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs wlk-whisper[torch]")
pytest.importorskip("transformers", reason="needs wlk-whisper[torch]")

import torch

from wlk_conformance.testing import (
    StreamDriver,
    clip_names,
    connected_digits,
    load_clip,
)
from wlk_core import load_backend


@pytest.fixture(scope="module")
def whisper():
    """Return the torch backend with the bundled checkpoint."""
    with load_backend("whisper", "digits") as loaded:
        yield loaded


def transcribe(backend, audio, **options):
    """Return the driver of a finished stream of *audio*."""
    driver = StreamDriver(backend.create_processor(**options))
    driver.feed(audio)
    driver.finish()
    return driver


def texts(driver):
    """Return the committed words without their spacing."""
    return [token.text.strip() for token in driver.tokens]


@pytest.mark.slow
@pytest.mark.parametrize("name", clip_names())
def test_the_words_are_those_of_faster_whisper(whisper, backend, name):
    """One checkpoint on two engines in float32: the same text, times and probabilities."""
    audio = load_clip(name).audio
    ours = transcribe(whisper, audio, policy="local-agreement")
    theirs = transcribe(backend, audio)

    assert texts(theirs) == texts(ours)
    for our_token, their_token in zip(ours.tokens, theirs.tokens, strict=True):
        assert their_token.start == pytest.approx(our_token.start, abs=0.021)
        assert their_token.end == pytest.approx(our_token.end, abs=0.021)
        assert their_token.probability == pytest.approx(our_token.probability, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_gives_the_words_of_the_beam_of_faster_whisper(whisper, backend, seed):
    """Ranking, length and pruning are CTranslate2's."""
    audio = connected_digits(8, seed=seed).audio
    options = {"beam_size": 4, "language": "en"}

    assert texts(transcribe(backend, audio, **options)) == texts(
        transcribe(whisper, audio, policy="local-agreement", **options)
    )


def test_the_digits_checkpoint_runs_in_float32(whisper):
    """The checkpoint was saved in float16 and declares float32, so float32 runs."""
    assert torch.float32 == whisper.engine.network.dtype
