"""Streams on torch whose engine calls are taken together get what each of them gets alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
import threading

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

pytest.importorskip("torch", reason="needs wlk-whisper[torch]")
pytest.importorskip("transformers", reason="needs wlk-whisper[torch]")

from wlk_conformance import EngineFaults
from wlk_conformance.testing import StreamDriver, connected_digits
from wlk_core import load_backend
from wlk_whisper.engine.alignatt import transcribe_aligned
from wlk_whisper.engine.engine import DecodingOptions, transcribe
from wlk_whisper.engine.passes import run_alone

RATE = 16_000
COUNTERS = (
    "encoder_frames",
    "decoder_positions",
    "decoder_forwards",
    "host_syncs",
    "detokenised_ids",
)
SPEECH = connected_digits(12, seed=5).audio
STREAMS = (
    {"policy": "alignatt"},
    {"policy": "local-agreement", "beam_size": 2, "language": "en"},
    {"policy": "alignatt", "language": "en", "audio_context": "full"},
    {"policy": "local-agreement"},
)


@pytest.fixture(scope="module")
def whisper():
    """Return the torch backend with the bundled checkpoint."""
    with load_backend("whisper", "digits") as loaded:
        yield loaded


def run(backend, audio, options):
    """Return the finished stream of *audio*, in chunks of a second."""
    driver = StreamDriver(backend.create_processor(**options))
    for start in range(0, len(audio), RATE):
        driver.insert(audio[start : start + RATE])
        driver.drain()
    driver.finish()
    return driver


def run_in_batches(backend, audios):
    """Run a stream in a thread for each audio, in batches of all that go on."""
    calls, ending = EngineFaults.of(backend.engine_calls), threading.Lock()

    def run_one(audio, options):
        try:
            return run(backend, audio, options)
        finally:
            with ending:
                calls.together -= 1

    calls.together = len(audios)
    try:
        with ThreadPoolExecutor(len(audios)) as threads:
            return list(threads.map(run_one, audios, STREAMS))
    finally:
        calls.together = 0


@pytest.mark.slow
def test_streams_of_both_policies_in_batches_equal_solo_runs(whisper):
    """Words, times and work are equal, probabilities up to rounding, in a fraction of the runs."""
    audios = [connected_digits(3 + seed % 2, seed=seed).audio for seed in range(len(STREAMS))]
    solo = [run(whisper, *stream) for stream in zip(audios, STREAMS, strict=True)]
    calls = whisper.engine_calls
    count, runs = calls.count, calls.batch_count
    drivers = run_in_batches(whisper, audios)

    for expected, driver in zip(solo, drivers, strict=True):
        assert_same_words(expected.tokens, driver.tokens)
        for counter in COUNTERS:
            assert getattr(expected.processor.stats, counter) == getattr(
                driver.processor.stats, counter
            )
    assert (calls.count - count) / (calls.batch_count - runs) > len(STREAMS) / 2


def assert_same_words(expected, words):
    """Compare words: text and times exactly, probabilities up to rounding."""
    assert expected
    assert [(w.text, w.start, w.end) for w in expected] == [(w.text, w.start, w.end) for w in words]
    for word, other in zip(expected, words, strict=True):
        assert other.probability == pytest.approx(word.probability, abs=1e-4)


requests = st.fixed_dictionaries(
    {
        "start": st.integers(0, len(SPEECH) - RATE // 2),
        "length": st.integers(RATE // 2, 5 * RATE),
        "is_aligned": st.booleans(),
        "beam_size": st.sampled_from([1, 1, 2]),
        "language": st.sampled_from(["en", None]),
        "prompt": st.sampled_from(["", "one two", "seven eight nine zero one"]),
        "context": st.sampled_from(["padded", "full", "fitted"]),
        "is_last": st.booleans(),
    }
)


@pytest.mark.slow
@given(group=st.lists(requests, min_size=2, max_size=5))
@settings(max_examples=8)
def test_any_group_of_engine_calls_has_the_answers_of_each_alone(whisper, group):
    """Windows, prompts, beams and policies of any kind."""
    engine = whisper.engine
    calls = [engine_call(engine, **request) for request in group]
    alone = [run_alone(engine.network, call()) for call in calls]

    for expected, answer in zip(alone, engine.run(calls), strict=True):
        assert (expected.language, expected.work) == (answer.language, answer.work)
        assert len(expected.words) == len(answer.words)
        for word, other in zip(expected.words, answer.words, strict=True):
            assert getattr(word, "frames", ()) == getattr(other, "frames", ())
            word, other = (getattr(entry, "word", entry) for entry in (word, other))  # noqa: PLW2901 -- the word of an aligned word
            assert (word.text, word.start, word.end) == (other.text, other.start, other.end)
            assert other.probability == pytest.approx(word.probability, abs=1e-4)


def engine_call(
    engine, *, start, length, is_aligned, beam_size, language, prompt, context, is_last
):
    """Return what begins the engine call of a request."""
    audio = SPEECH[start : start + length]
    options = DecodingOptions(beam_size=beam_size, context=context)
    common = {"engine": engine, "options": options, "prompt": prompt, "language": language}
    if not is_aligned:
        return partial(transcribe, audio, **common)
    return partial(
        transcribe_aligned,
        audio,
        context=(),
        is_last=is_last,
        **common,
    )
