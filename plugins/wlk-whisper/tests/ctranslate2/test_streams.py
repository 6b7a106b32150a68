"""The digits checkpoint through LocalAgreement: words and times."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_conformance.testing import StreamDriver, clip_names, load_clip


def transcribe(backend, audio, *, chunk_seconds=1.0, **options):
    """Return the driver of a finished stream of *audio*."""
    driver = StreamDriver(backend.create_processor(**options))
    driver.feed(audio, chunk_seconds=chunk_seconds)
    driver.finish()
    return driver


def texts(driver):
    """Return the committed words without their spacing."""
    return [token.text.strip() for token in driver.tokens]


@pytest.mark.slow
@pytest.mark.parametrize("name", clip_names())
def test_a_clip_is_transcribed_with_its_times(backend, name):
    """The words are right and begin where they are spoken."""
    clip = load_clip(name)
    driver = transcribe(backend, clip.audio)
    errors = [
        abs(token.start - word.start)
        for token, word in zip(driver.tokens, clip.words, strict=False)
    ]

    assert [word.text.strip() for word in clip.words] == texts(driver)
    assert np.median(errors) <= 0.06


@pytest.mark.slow
def test_a_fitted_window_gives_the_words_of_the_full_one(backend):
    """The checkpoint was trained on shorter input, so less is encoded for the same words."""
    audio = load_clip("demo").audio
    full, fitted = (
        transcribe(backend, audio, audio_context=context) for context in ("full", "fitted")
    )
    ticks = full.processor.stats.encoder_frames // 3000

    assert texts(full) == texts(fitted)
    assert 3000 * ticks == full.processor.stats.encoder_frames
    assert fitted.processor.stats.encoder_frames < full.processor.stats.encoder_frames / 2
