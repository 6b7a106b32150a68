"""Requests to a server: their fields, audio and number, and streams of them."""

from __future__ import annotations

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import EMPTY, REJECTION, recording, response, transcribe
import numpy as np

from wlk_conformance.testing import StreamDriver, load_clip, noise
from wlk_core import BackendError, OptionError, load_backend


def test_a_request_has_model_format_and_granularities(load, server):
    """Without a prompt and a language the request has neither field."""
    hypothesis = transcribe(load())
    (request,) = server.accepted

    assert request.fields == {
        "model": ["digits"],
        "response_format": ["verbose_json"],
        "timestamp_granularities[]": ["word", "segment"],
    }
    assert hypothesis.language == "en"
    assert hypothesis.words
    transcribe(load(), prompt="one two", language="en")
    fields = server.accepted[1].fields

    assert (fields["prompt"], fields["language"]) == (["one two"], ["en"])


@pytest.mark.parametrize(
    ("language", "is_forced", "sent"),
    [
        ("la", False, ["la", None]),
        ("la", True, ["la"]),
        ("jw", False, ["jv", None]),
        ("jw", True, ["jv", "jw"]),
        ("yue", False, ["yue", None]),
        ("haw", True, ["haw"]),
        (None, False, [None]),
    ],
)
def test_a_language_is_sent_in_the_codes_that_servers_accept(
    load, server, language, is_forced, sent
):
    """ISO 639-1 comes first; then Whisper's code of a forced language, else no language."""
    languages = []
    server.next.extend(
        [recording(languages, REJECTION)] * (len(sent) - 1)
        + [recording(languages, response(200, EMPTY))]
    )
    hypothesis = transcribe(load(), language=language, is_forced=is_forced)

    assert languages == sent
    assert hypothesis.language == language


def test_the_rejection_of_a_forced_language_is_an_error(load, server):
    """A forced language is never replaced by a detected one."""
    server.next.append(REJECTION)
    with pytest.raises(BackendError, match="Unsupported language"):
        transcribe(load(), language="yue", is_forced=True)

    assert server.arrivals == 1


def test_a_translation_has_fields_of_its_own(load, server):
    """The path for translations takes neither language nor granularities."""
    hypothesis = transcribe(load(), task="translate", prompt="one")
    (request,) = server.accepted

    assert request.path == "/v1/audio/translations"
    assert request.fields.keys() == {"model", "response_format", "prompt"}
    assert hypothesis.language is None
    assert hypothesis.words


def test_the_source_language_of_a_translation_is_refused(load):
    """The server has no field for it, and no argument is ignored silently."""
    with pytest.raises(OptionError, match="translations take no source language"):
        load().create_processor(task="translate", language="de")


def test_the_audio_arrives_unchanged(load, server):
    """Sixteen bits are kept, and samples beyond full scale are clipped."""
    audio = noise(2.0, level=0.1, seed=1)
    audio[:2] = (1.5, -1.5)
    transcribe(load(), audio)
    (request,) = server.accepted

    np.testing.assert_allclose(request.audio, np.clip(audio, -1.0, 1.0), atol=1 / 32768)


def test_a_connection_without_encryption_is_a_warning(server, caplog):
    """Requests to this machine cause none, because nobody else reads them."""
    load_backend("openai-api", base_url="http://there.example/v1").close()
    load_backend("openai-api", base_url=server.url).close()

    warning = "the key and the audio are sent to http://there.example/v1 unencrypted"
    assert caplog.messages == [warning]


def streamed(backend, audio, **options):
    """Return the driver of a finished stream of *audio*."""
    driver = StreamDriver(backend.create_processor(**options))
    driver.feed(audio)
    driver.finish()
    return driver


def texts(words):
    """Return words without their spacing."""
    return [word.text.strip() for word in words]


@pytest.mark.slow
def test_a_translation_commits_whole_segments(load, server):
    """A segment keeps its own times, because its words have none."""
    driver = streamed(load(), load_clip("demo").audio, task="translate")
    spoken = [" ".join(texts([token])).split() for token in driver.tokens]

    assert {request.path for request in server.accepted} == {"/v1/audio/translations"}
    assert texts(load_clip("demo").words) == [word for words in spoken for word in words]
    assert max(map(len, spoken)) > 1
    assert {token.detected_language for token in driver.tokens} == {None}
    assert server.rejections == []
