"""Requests to an endpoint, and what the backend makes of its responses."""

from __future__ import annotations

from traceback import format_exception
from types import SimpleNamespace

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import KEY, response
import numpy as np

from wlk_core import BackendError, OptionError, StreamClosed, load_backend
from wlk_core.testing import load_clip, noise


def transcribe(backend, audio=None, **arguments):
    """Make one request of a backend, as a stream would."""
    audio = load_clip("demo").audio[: 16_000 * 3] if audio is None else audio
    return backend.engine.transcribe(audio, **{"prompt": "", "language": None, **arguments})


def recording(languages, respond):
    """Return a response that first appends the request's language to *languages*."""

    def record_and_respond(handler):
        languages.append(handler.language)
        respond(handler)

    return record_and_respond


def test_loading_sends_nothing(load, server):
    """The first request is made by warmup or by a stream."""
    load()

    assert 0 == server.arrivals


def test_a_request_has_model_format_and_granularities(load, server):
    """Without a prompt and a language the request has neither field."""
    hypothesis = transcribe(load())
    (request,) = server.accepted

    assert {
        "model": ["digits"],
        "response_format": ["verbose_json"],
        "timestamp_granularities[]": ["word", "segment"],
    } == request.fields
    assert "en" == hypothesis.language
    assert hypothesis.words


def test_prompt_and_language_are_sent_with_the_call(load, server):
    """The fields have the values of the call."""
    transcribe(load(), prompt="one two", language="en")
    (request,) = server.accepted

    assert (["one two"], ["en"]) == (request.fields["prompt"], request.fields["language"])


EMPTY = {"text": "", "words": []}
REJECTION = response(400, {"error": {"message": "Unsupported language"}})


@pytest.mark.parametrize(
    ("language", "is_forced", "sent"),
    [
        ("la", False, ["la", None]),
        ("la", True, ["la"]),
        ("jw", False, ["jv", None]),
        ("jw", True, ["jv", "jw"]),
        ("yue", False, [None]),
        ("haw", True, ["haw"]),
        (None, False, [None]),
    ],
)
def test_a_language_is_sent_in_the_codes_that_endpoints_accept(
    load, server, language, is_forced, sent
):
    """ISO 639-1 comes first; then Whisper's code of a forced language, or no language at all."""
    languages = []
    server.next.extend(
        [recording(languages, REJECTION)] * (len(sent) - 1)
        + [recording(languages, response(200, EMPTY))]
    )
    hypothesis = transcribe(load(), language=language, is_forced=is_forced)

    assert sent == languages
    assert language == hypothesis.language


def test_the_rejection_of_a_forced_language_is_an_error(load, server):
    """A forced language is never replaced by a detected one."""
    server.next.append(REJECTION)
    with pytest.raises(BackendError, match="Unsupported language"):
        transcribe(load(), language="yue", is_forced=True)

    assert 1 == server.arrivals


def test_a_wrong_detection_does_not_end_a_stream(load, server):
    """The endpoint detects Latin, rejects Latin, and the stream continues without a language."""
    languages = []
    word = {"word": "one", "start": 0.2, "end": 0.5}
    latin = response(200, {"text": "one", "language": "latin", "words": [word]})
    server.next.extend(recording(languages, r) for r in (latin, latin, REJECTION, latin))
    stream = load().create_processor()
    for _ in range(3):
        stream.insert_audio_chunk(noise(2.0, seed=1))
        stream.process_iter()
    stream.close()

    assert [None, None, "la", None] == languages


def test_a_translation_has_fields_of_its_own(load, server):
    """The translations endpoint takes neither language nor granularities."""
    hypothesis = transcribe(load(), task="translate", prompt="one")
    (request,) = server.accepted

    assert "/v1/audio/translations" == request.path
    assert {"model", "response_format", "prompt"} == request.fields.keys()
    assert hypothesis.language is None
    assert hypothesis.words


def test_the_audio_arrives_unchanged(load, server):
    """Sixteen bits are kept, and samples beyond full scale are clipped."""
    audio = noise(2.0, level=0.1, seed=1)
    audio[:2] = (1.5, -1.5)
    transcribe(load(), audio)
    (request,) = server.accepted

    np.testing.assert_allclose(request.audio, np.clip(audio, -1.0, 1.0), atol=1 / 32768)


def test_short_audio_is_padded_to_a_second(load, server):
    """Endpoints reject audio under a tenth of a second."""
    transcribe(load(), noise(0.01, seed=1))

    assert 1.0 == server.accepted[0].seconds


def test_usage_counts_every_attempt_that_is_sent(load, server):
    """Attempts that the client repeats count like the others."""
    backend = load()
    client = backend.engine
    server.next.append(response(500, "{}", retry_after_ms="1"))
    transcribe(backend, noise(2.0, seed=1))
    backend.warmup()
    backend.close()

    assert 3 == client.usage.requests == server.arrivals
    assert 5.0 == client.usage.audio_seconds


def test_a_refused_connection_is_no_usage(load):
    """A refused connection sends no audio."""
    backend = load(base_url="http://127.0.0.1:9/v1", max_retries=0)
    with pytest.raises(BackendError, match="no connection"):
        backend.warmup()

    assert (0, 0.0) == (backend.engine.usage.requests, backend.engine.usage.audio_seconds)


def test_opening_a_tunnel_through_a_proxy_is_no_usage(load, server):
    """CONNECT is a request of the HTTP library like the one for the endpoint, without audio."""
    meter = load().engine.meter
    for method, protocol in ((b"CONNECT", "http11"), (b"POST", "http11"), (b"POST", "http2")):
        request = SimpleNamespace(method=method, extensions={})
        meter.watch(request)
        with meter.sending(2.0):
            for event in ("send_request_headers.started", "send_request_body.started"):
                request.extensions["trace"](f"{protocol}.{event}", {"request": request})

    assert (2, 4.0) == (meter.usage.requests, meter.usage.audio_seconds)
    assert 0 == server.arrivals


def test_streams_that_outlive_the_backend_continue_to_count(load, server):
    """Their requests cost money as well."""
    backend = load()
    client = backend.engine
    stream = backend.create_processor()
    backend.close()
    server.next.append(response(200, EMPTY))
    stream.insert_audio_chunk(noise(1.5, seed=1))
    stream.finish()

    assert (1, 1.5) == (client.usage.requests, client.usage.audio_seconds)


def test_the_key_comes_from_the_environment_and_goes_to_the_endpoint(load, server, monkeypatch):
    """OpenAI's own headers are not sent to other hosts."""
    monkeypatch.setenv("OTHER_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-host")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin-of-openai")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: pass-1\nAuthorization: Bearer pass-2")
    transcribe(load(api_key_env="OTHER_KEY"))
    (request,) = server.accepted

    assert f"Bearer {KEY}" == request.headers["authorization"]
    assert not {"openai-organization", "openai-project", "x-gateway"} & request.headers.keys()
    for secret in ("sk-of-another-host", "sk-admin-of-openai", "pass-1", "pass-2"):
        assert secret not in str(request.headers)


def test_openai_receives_its_headers_from_the_environment(server, monkeypatch):
    """The gateway of an organisation may need them; the administrator's key is never sent."""
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: pass-1")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin-of-openai")
    with load_backend("openai-api") as backend:
        client = backend.engine._client

        assert "pass-1" == client.default_headers["X-Gateway"]
        assert client.admin_api_key is None
    assert 0 == server.arrivals


def test_requests_to_this_machine_ignore_proxies(load, server, monkeypatch):
    """A local server is reached although the environment names a proxy."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    transcribe(load())

    assert 1 == server.arrivals


def test_a_warmup_is_a_second_of_silence(load, server):
    """It costs little and tests URL, key and model."""
    load().warmup()
    (request,) = server.accepted

    assert 1.0 == request.seconds
    assert not request.audio.any()


@pytest.mark.parametrize(
    ("respond", "message", "is_retryable"),
    [
        (response(200, "<html>sign in</html>", content_type="text/html"), "a page of HTML", False),
        (
            response(502, "<h1>Bad Gateway</h1>", retry_after_ms="1"),
            "502 .*HTML: Bad Gateway",
            True,
        ),
        (response(200, '{"text": "on'), "expected JSON", True),
        (response(200, {"text": "one two"}), "without `words`", False),
        (response(429, {"error": {"message": "slow"}}, retry_after_ms="1"), r"429 \(slow\)", True),
        (
            response(429, {"error": {"code": "insufficient_quota"}}, retry_after_ms="1"),
            "quota of this key is used up",
            False,
        ),
        (response(500, "", retry_after_ms="1"), "answered 500", True),
        (response(400, {"error": {"message": "no verbose_json"}}), "no verbose_json", False),
        (response(403, {"error": {"message": "region"}}), "OPENAI_API_KEY", False),
        (
            response(307, "", location="http://127.0.0.1:9/"),
            "redirects to http://127.0.0.1:9/",
            False,
        ),
    ],
    ids=[
        "html", "html 502", "damaged", "no words", "429", "quota", "500", "400", "403", "redirect",
    ],
)  # fmt: skip
def test_an_invalid_response_is_one_line(load, server, respond, message, is_retryable):
    """The line has the URL, the response and its remedy; the error is retryable or not."""
    server.next.extend([respond] * 2)
    with pytest.raises(BackendError, match=message) as caught:
        transcribe(load(max_retries=1))

    assert is_retryable == caught.value.retryable
    assert server.url in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is not None


def test_a_wrong_key_is_reported_without_showing_it(load, server, monkeypatch):
    """The endpoint repeats the key that it rejects; the error names its variable instead."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-987654")
    with pytest.raises(BackendError, match=r"401 .* OPENAI_API_KEY; set .* export OP") as caught:
        load().warmup()

    assert not caught.value.retryable
    assert "sk-wrong-987654" not in "".join(format_exception(caught.value))
    assert 1 == server.arrivals


def test_no_cause_of_an_error_shows_the_key(load, server):
    """Causes are text, because the client's exceptions reference the request and the response."""
    server.next.append(response(400, {"error": {"message": f"{'no ' * 63}{KEY}"}}))
    server.next.append(response(200, f"{'?' * 50}{KEY}"))
    backend = load(max_retries=0)
    for name in ("BadRequestError", "ResponseError"):
        with pytest.raises(BackendError) as caught:
            backend.warmup()
        failures = [caught.value]
        while (cause := failures[-1].__cause__ or failures[-1].__context__) is not None:
            failures.append(cause)

        assert str(failures[1]).startswith(f"{name}: ")
        assert {"ClientError"} == {type(failure).__name__ for failure in failures[1:]}
        assert not any(KEY[:8] in str(failure) for failure in failures)


def test_a_short_key_is_not_masked(load, server, monkeypatch):
    """Local servers accept any key; masking a letter would make the message unreadable."""
    monkeypatch.setenv("OPENAI_API_KEY", "e")
    server.next.append(response(400, {"error": {"message": "no verbose_json here"}}))
    with pytest.raises(BackendError, match="no verbose_json here"):
        load().warmup()


def test_a_missing_key_is_reported(load, server, monkeypatch):
    """The error of a server that requires a key names the variable."""
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(BackendError, match=r"requires a key, and .* OPENAI_API_KEY is not set"):
        load().warmup()


def test_an_unknown_model_and_a_wrong_path_are_reported(load, server):
    """A 404 is either; the endpoint's own message is part of the line."""
    with pytest.raises(BackendError, match=r"`huge` does not exist.*no model huge"):
        load("huge").warmup()
    with pytest.raises(BackendError, match=r"Invalid URL.*the part before /audio/transcriptions"):
        load(base_url=server.url.removesuffix("/v1")).warmup()


def test_requests_to_busy_and_broken_servers_are_repeated(load, server, monkeypatch):
    """The client waits as Retry-After demands, else longer each time."""
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    server.next.extend(
        [
            response(429, "{}", retry_after="7"),
            response(503, "{}"),
            lambda handler: handler.break_off(),
        ]
    )
    hypothesis = transcribe(load(max_retries=3))

    assert hypothesis.words
    assert 4 == server.arrivals
    assert 7.0 == waits[0] > waits[2] > waits[1] > 0


def test_a_lost_connection_is_retryable(load, server):
    """A response that breaks off may be complete at the next attempt."""
    server.next.append(lambda handler: handler.break_off())
    with pytest.raises(BackendError, match=f"no connection to {server.url}, or it was lost") as e:
        transcribe(load(max_retries=0))

    assert e.value.retryable


def test_a_missing_server_is_retryable(load):
    """The message asks the user to check that the server runs."""
    with pytest.raises(BackendError, match=r"no connection to .*check that the server runs") as e:
        load(base_url="http://127.0.0.1:9/v1", max_retries=0).warmup()

    assert e.value.retryable


@pytest.mark.slow
def test_a_server_without_an_answer_times_out(load, server):
    """A request fails after its time, and the message names the option that allows more."""
    released = []
    server.next.append(lambda handler: released.append(handler.rfile.read(1)))
    with pytest.raises(BackendError, match=r"did not answer in time.*timeout_seconds") as e:
        transcribe(load(max_retries=0, timeout_seconds=0.2))

    assert e.value.retryable


def test_the_source_language_of_a_translation_is_refused(load):
    """The endpoint has no field for it, and no argument is ignored silently."""
    with pytest.raises(OptionError, match="translations take no source language"):
        load().create_processor(task="translate", language="de")


@pytest.mark.slow
def test_a_closed_backend_sends_nothing(load, server):
    """New streams and warmups are refused; open streams continue."""
    backend = load()
    stream = backend.create_processor()
    backend.close()
    for call in (backend.warmup, backend.create_processor):
        with pytest.raises(StreamClosed):
            call()
    stream.insert_audio_chunk(load_clip("demo").audio)

    assert stream.finish().committed
    assert server.arrivals


def test_the_log_names_the_endpoint_first_and_the_usage_last(server, caplog):
    """A connection without encryption is a warning; closing logs the usage."""
    with caplog.at_level("INFO", logger="wlk_whisper.openai_api.backend"):
        load_backend("openai-api", base_url="http://there.example/v1").close()
        load_backend("openai-api", base_url=server.url).close()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    assert ["key and audio go to http://there.example/v1 without encryption"] == warnings
    assert f"audio goes to {server.url}, model whisper-1" in caplog.messages
    assert f"sent 0.0 s of audio in 0 requests to {server.url}" in caplog.messages
