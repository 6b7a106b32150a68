"""Streams on MLX: neither chunks nor drafts nor threads change what is predicted."""

from __future__ import annotations

from functools import partial

import pytest

from wlk_conformance.testing import StreamDriver, load_clip, noise
from wlk_core import load_backend
from wlk_core.plugins import OnlineStream
from wlk_voxtral.recognizer import VoxtralRecognizer


@pytest.fixture(scope="module")
def lively(write, tmp_path_factory):
    """Return a backend of the small model, whose predictions have many values."""
    directory = write(tmp_path_factory.mktemp("lively") / "model", "voxmlx")
    with load_backend("voxtral-mlx", str(directory)) as loaded:
        yield loaded


def streamed(backend, audio, *, chunk, draft_steps=8, delay_steps=6):
    """Return the ids and the driver of a stream of *audio* in pieces."""
    engine, predictions = backend.engine, []

    def decode(mel, state):
        batch, new_state, work = engine.decode(
            mel, state, delay_steps=delay_steps, draft_steps=draft_steps
        )
        predictions.extend(batch)
        return batch, new_state, work

    recognizer = partial(
        VoxtralRecognizer,
        decode,
        tokenizer=engine.settings.tokenizer,
        delay_steps=delay_steps,
        log_mel=engine.settings.log_mel,
    )
    driver = StreamDriver(OnlineStream(recognizer))
    driver.feed(audio, chunk_seconds=chunk)
    driver.finish()
    return [prediction.id for prediction in predictions], driver


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1 / 16_000, 0.037, 0.08, 1.0])
def test_a_stream_does_not_depend_on_the_chunks(lively, chunk):
    """One sample at a time and all at once give the same ids."""
    audio = noise(0.4 if chunk < 0.001 else 5.0, level=0.1, seed=6)
    expected, _ = streamed(lively, audio, chunk=60.0)

    assert len(set(expected)) > 3
    assert expected == streamed(lively, audio, chunk=chunk)[0]


@pytest.mark.slow
@pytest.mark.parametrize("delay_steps", [3, 6, 10])
def test_drafts_change_no_id(lively, backend, delay_steps):
    """Step by step and eight at a time agree, and the digits take far fewer passes."""
    runs = {}
    for model, audio in (
        (lively, noise(5.0, level=0.1, seed=7)),
        (backend, load_clip("demo").audio),
    ):
        for width in (1, 8):
            runs[model, width] = streamed(
                model, audio, chunk=60.0, draft_steps=width, delay_steps=delay_steps
            )
    passes = [runs[backend, width][1].processor.stats.decoder_forwards for width in (1, 8)]

    assert runs[lively, 1][0] == runs[lively, 8][0]
    assert runs[backend, 1][0] == runs[backend, 8][0]
    assert passes[1] < passes[0] / 2
