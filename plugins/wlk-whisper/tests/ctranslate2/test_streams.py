"""The digits checkpoint through LocalAgreement: words and times."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_conformance.testing import (
    StreamDriver,
    clip_names,
    connected_digits,
    load_clip,
    noise,
    silence,
    tone,
)


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
@pytest.mark.parametrize("gap", [0.05, 0.1, 0.2, 0.4, 0.7, 1.0])
def test_repeated_words_survive(backend, gap):
    """Overlap between hypotheses is removed by time, never by text alone."""
    # The model recognises the voice of seed 1 without an error, so a missing word was removed as
    # overlap.
    clip = connected_digits(10, seed=1, digits=(7, 7, 3, 3, 1, 1, 9, 9, 2, 2), gap=(gap, gap))
    driver = transcribe(backend, clip.audio)

    assert [word.text.strip() for word in clip.words] == texts(driver)


@pytest.mark.slow
@pytest.mark.parametrize(
    "audio",
    [
        silence(10.0),
        noise(10.0, level=0.003, seed=1),
        noise(10.0, level=0.05, seed=2),
        tone(10.0, hertz=440.0),
        tone(10.0, hertz=1000.0, level=0.3),
    ],
    ids=["zeros", "low noise", "white noise", "440 Hz", "1 kHz"],
)
def test_audio_without_speech_has_no_words(backend, audio):
    """Silence, noise and tones commit nothing and have no hypothesis."""
    driver = StreamDriver(backend.create_processor())
    driver.feed(audio)

    assert "" == driver.processor.get_buffer().text
    driver.finish()
    assert () == driver.tokens


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


@pytest.mark.slow
def test_the_language_is_detected_per_stream_and_reported(backend):
    """A stream without a language reports the detected one."""
    driver = transcribe(backend, load_clip("demo").audio)

    assert {"en"} == {token.detected_language for token in driver.tokens}
    assert all(0.0 <= token.probability <= 1.0 for token in driver.tokens)
