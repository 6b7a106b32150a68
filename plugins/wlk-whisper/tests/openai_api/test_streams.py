"""Streams over an endpoint: words, times, faults and usage."""

from __future__ import annotations

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")


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
def test_a_translation_commits_whole_segments(load, server):
    """A segment keeps its own times, because its words have none."""
    driver = transcribe(load(), load_clip("demo").audio, task="translate")
    spoken = [" ".join(texts([token])).split() for token in driver.tokens]

    assert {"/v1/audio/translations"} == {request.path for request in server.accepted}
    assert texts(load_clip("demo").words) == [word for words in spoken for word in words]
    assert max(map(len, spoken)) > 1
    assert {None} == {token.detected_language for token in driver.tokens}
    assert [] == server.rejections
