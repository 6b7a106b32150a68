"""The digits checkpoint through LocalAgreement: words, times and work."""

from __future__ import annotations

import threading

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
from wlk_core import BackendError

DIGITS = frozenset(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


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
@pytest.mark.parametrize("chunk_seconds", [0.1, 0.5, 5.0, 60.0])
def test_the_chunk_size_changes_nothing(backend, chunk_seconds):
    """The policy decides at the same samples however the audio was cut."""
    audio = load_clip("demo").audio

    whole = transcribe(backend, audio)
    chunked = transcribe(backend, audio, chunk_seconds=chunk_seconds)

    assert whole.tokens == chunked.tokens


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


def test_no_prompt_means_no_prompt_tokens(backend):
    """Without earlier text the decoder starts with the language and task tokens."""
    engine = backend.engine
    tokenizer = engine._tokenizer("en", "transcribe")

    assert tokenizer.sot_sequence == engine.model.get_prompt(tokenizer, [])


@pytest.mark.slow
def test_the_language_is_detected_per_stream_and_reported(backend):
    """A stream without a language reports the detected one."""
    driver = transcribe(backend, load_clip("demo").audio)

    assert {"en"} == {token.detected_language for token in driver.tokens}
    assert all(0.0 <= token.probability <= 1.0 for token in driver.tokens)


@pytest.mark.slow
def test_streams_in_threads_equal_streams_alone(backend):
    """The shared model stores no state of a stream."""
    clips = [connected_digits(6, seed=seed).audio for seed in range(4)]
    alone = [transcribe(backend, audio).tokens for audio in clips]
    together = [None] * len(clips)

    def run(index):
        together[index] = transcribe(backend, clips[index]).tokens

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(clips))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert alone == together


@pytest.mark.slow
@pytest.mark.parametrize("samples", [1, 159, 1600, 3200])
def test_any_length_can_be_finished(backend, samples):
    """A stream of one sample ends like one of an hour."""
    driver = transcribe(backend, noise(1.0, seed=3)[:samples])

    assert samples / 16_000 == driver.processed_up_to


@pytest.mark.slow
def test_a_long_stream_costs_the_same_per_minute(backend):
    """Work and state of a repeated clip with a pause do not grow."""
    loop = np.concatenate([connected_digits(8, seed=seed, tail=0.6).audio for seed in (1, 2)])
    driver = StreamDriver(backend.create_processor(language="en"))
    work, state_bytes = [], []
    for _ in range(7):  # the prompt is full after three
        driver.feed(loop)
        state_bytes.append(driver.processor.stats.state_bytes)
        driver.silence(1.0)
        stats = driver.processor.stats
        work.append((stats.encoder_frames, stats.decoder_positions, stats.decoder_forwards))
    growth = np.diff(np.array(work), axis=0)

    np.testing.assert_allclose(growth[-1], growth[-2], rtol=0.02)
    assert state_bytes[-1] == state_bytes[-2]


@pytest.mark.slow
@pytest.mark.parametrize("call", [1, 2, 5])
def test_a_fault_of_the_engine_loses_nothing(backend, monkeypatch, call):
    """A call that fails changes nothing: after a retry the words are those without the fault."""
    audio = load_clip("twice").audio
    expected = transcribe(backend, audio).tokens
    engine, calls = backend.engine, []

    def faulty(*arguments, **options):
        calls.append(None)
        if len(calls) == call:
            raise RuntimeError("CUDA out of memory")
        return engine_transcribe(*arguments, **options)

    engine_transcribe = engine.transcribe
    monkeypatch.setattr(type(engine), "transcribe", staticmethod(faulty))
    driver, faults = StreamDriver(backend.create_processor()), 0
    for first in range(0, len(audio), 16_000):
        driver.insert(audio[first : first + 16_000])
        try:
            driver.process()
        except BackendError as error:
            assert "CUDA out of memory" in str(error)
            faults += 1
    driver.drain()
    driver.finish()

    assert 1 == faults
    assert expected == driver.tokens
