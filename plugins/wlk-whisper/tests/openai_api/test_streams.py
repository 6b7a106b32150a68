"""Streams over an endpoint: words, times, faults and usage."""

from __future__ import annotations

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

import numpy as np

from wlk_conformance.testing import StreamDriver, connected_digits, load_clip


def transcribe(backend, audio, **options):
    """Return the driver of a finished stream of *audio*."""
    driver = StreamDriver(backend.create_processor(**options))
    driver.feed(audio)
    driver.finish()
    return driver


def texts(words):
    """Return words without their spacing."""
    return [word.text.strip() for word in words]


@pytest.mark.slow
def test_a_stream_commits_the_words_of_a_clip_with_their_times(load, server):
    """Words, times and language of an endpoint are those of a model."""
    clip = load_clip("demo")
    driver = transcribe(load(), clip.audio)
    errors = [
        abs(token.start - word.start) for token, word in zip(driver.tokens, clip.words, strict=True)
    ]

    assert texts(clip.words) == texts(driver.tokens)
    assert np.median(errors) <= 0.06
    assert {"en"} == {token.detected_language for token in driver.tokens}
    assert {None} == {token.probability for token in driver.tokens}
    assert [] == server.rejections


@pytest.mark.slow
def test_a_detected_language_is_kept_for_the_stream(load, server):
    """Once text is committed its language is sent with each request, in this stream only."""
    backend = load()
    transcribe(backend, load_clip("demo").audio)
    languages = [request.fields.get("language") for request in server.accepted]
    first = languages.index(["en"])

    assert [None] * first == languages[:first]
    assert [["en"]] * (len(languages) - first) == languages[first:]
    server.accepted.clear()
    transcribe(backend, load_clip("demo").audio[:32_000])
    assert server.accepted[0].fields.get("language") is None


@pytest.mark.slow
def test_committed_text_is_the_prompt_once_its_audio_is_dropped(load, server):
    """The initial prompt comes first; the end of the transcript follows it."""
    transcribe(load(), connected_digits(24, seed=60).audio, prompt="digits only")
    prompts = [request.fields["prompt"][0] for request in server.accepted]

    assert "digits only" == prompts[0]
    assert prompts[-1].startswith("digits only ")
    assert len(prompts[-1]) > len("digits only ")


@pytest.mark.slow
def test_the_audio_sent_is_a_bounded_multiple_of_the_audio(load, server):
    """The cost of a stream does not grow with its length."""
    driver = StreamDriver(load().create_processor(language="en"))
    loop, sent = connected_digits(14, seed=61, tail=0.6).audio, [0.0]
    for _ in range(3):
        driver.feed(loop)
        sent.append(sum(request.seconds for request in server.accepted))
    ratios = np.diff(sent) / (len(loop) / 16_000)

    assert all(2.0 <= ratio <= 4.5 for ratio in ratios), ratios


@pytest.mark.slow
def test_a_translation_commits_whole_segments(load, server):
    """A segment keeps its own times, because its words have none."""
    driver = transcribe(load(), load_clip("demo").audio, task="translate")
    spoken = [" ".join(texts([token])).split() for token in driver.tokens]

    assert {"/v1/audio/translations"} == {request.path for request in server.accepted}
    assert texts(load_clip("demo").words) == [word for words in spoken for word in words]
    assert max(map(len, spoken)) > 1
    assert {None} == {token.detected_language for token in driver.tokens}
    assert [] == server.rejections
