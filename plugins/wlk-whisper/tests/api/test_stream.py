"""Streams over an endpoint: words, times, faults and cost."""

from __future__ import annotations

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import FAULTS, answer
import numpy as np

from wlk_core import BackendError, StreamBroken
from wlk_core.testing import StreamDriver, connected_digits, load_clip


def heard(backend, audio, **options):
    """Return the driver of a stream that has heard *audio* to its end."""
    driver = StreamDriver(backend.create_processor(**options))
    driver.feed(audio)
    driver.finish()
    return driver


def texts(words):
    """Return words without their spacing."""
    return [word.text.strip() for word in words]


@pytest.mark.slow
def test_a_stream_hears_what_is_said_where_it_is_said(load, server):
    """Words, times and language come through the endpoint as from a model."""
    clip = load_clip("demo")
    driver = heard(load(), clip.audio)
    errors = [
        abs(token.start - word.start) for token, word in zip(driver.tokens, clip.words, strict=True)
    ]

    assert texts(clip.words) == texts(driver.tokens)
    assert np.median(errors) <= 0.06
    assert {"en"} == {token.detected_language for token in driver.tokens}
    assert {None} == {token.probability for token in driver.tokens}
    assert [] == server.refusals


@pytest.mark.slow
def test_a_detected_language_is_kept_for_the_stream(load, server):
    """Once text was committed the endpoint is told the language it heard, in this stream only."""
    backend = load()
    heard(backend, load_clip("demo").audio)
    languages = [given.fields.get("language") for given in server.received]
    first = languages.index(["en"])

    assert [None] * first == languages[:first]
    assert [["en"]] * (len(languages) - first) == languages[first:]
    server.received.clear()
    heard(backend, load_clip("demo").audio[:32_000])
    assert server.received[0].fields.get("language") is None


@pytest.mark.slow
def test_committed_text_is_the_prompt_once_its_audio_is_gone(load, server):
    """The initial prompt comes first; the end of the transcript follows it."""
    heard(load(), connected_digits(24, seed=60).audio, init_prompt="digits only")
    prompts = [given.fields["prompt"][0] for given in server.received]

    assert "digits only" == prompts[0]
    assert prompts[-1].startswith("digits only ")
    assert len(prompts[-1]) > len("digits only ")


@pytest.mark.slow
def test_what_is_sent_is_a_bounded_multiple_of_what_is_said(load):
    """The cost of a stream does not grow with its length."""
    backend = load()
    driver = StreamDriver(backend.create_processor(language="en"))
    loop, sent = connected_digits(14, seed=61, tail=0.6).audio, [0.0]
    for _ in range(3):
        driver.feed(loop)
        sent.append(backend.cost.audio_seconds)
    ratios = np.diff(sent) / (len(loop) / 16_000)

    assert all(2.0 <= ratio <= 4.5 for ratio in ratios), ratios


@pytest.mark.slow
def test_a_translation_commits_whole_segments(load, server):
    """Their times are the segments' own: nothing is spread over words."""
    driver = heard(load(), load_clip("demo").audio, task="translate")
    spoken = [" ".join(texts([token])).split() for token in driver.tokens]

    assert {"/v1/audio/translations"} == {given.path for given in server.received}
    assert texts(load_clip("demo").words) == [word for words in spoken for word in words]
    assert max(map(len, spoken)) > 1
    assert {None} == {token.detected_language for token in driver.tokens}
    assert [] == server.refusals


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=["500", "429", "gone", "cut off", "damaged", "HTML"])
@pytest.mark.parametrize("turn", [1, 3])
def test_a_fault_in_the_middle_of_a_stream_loses_nothing(load, server, fault, turn):
    """After retries in vain the call fails; the next one goes on, and every word is there."""
    clip, failed = load_clip("twice"), 0
    driver = StreamDriver(load(max_retries=0).create_processor())
    for number, first in enumerate(range(0, len(clip.audio), 32_000)):
        if number == turn:
            server.next.append(fault)
        driver.insert(clip.audio[first : first + 32_000])
        try:
            driver.process()
        except BackendError as error:
            assert server.url in str(error)
            failed += 1
    driver.drain()
    driver.finish()

    assert 1 == failed
    assert texts(clip.words) == texts(driver.tokens)


def test_a_stream_without_a_key_that_works_is_broken_in_the_end(load, monkeypatch):
    """Every call says why, and after three retries the stream is over."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    stream = load().create_processor()
    stream.insert_audio_chunk(load_clip("demo").audio)
    for _ in range(3):
        with pytest.raises(BackendError, match="401") as caught:
            stream.process_iter()
        assert not caught.value.retryable
    for call in (stream.process_iter, stream.finish):
        with pytest.raises(StreamBroken, match="401"):
            call()
    stream.close()


def test_a_loop_of_the_model_is_cut(load, server):
    """Words that share one place in the audio are not words."""
    words = [{"word": "one", "start": 0.2, "end": 0.5}]
    words += [{"word": "you", "start": 1.0, "end": 1.0}] * 5
    server.next.append(
        answer(200, {"text": "one you you you you you", "language": "en", "words": words})
    )
    stream = load().create_processor()
    stream.insert_audio_chunk(load_clip("demo").audio[:24_000])

    assert ["one"] == texts(stream.finish().committed)
