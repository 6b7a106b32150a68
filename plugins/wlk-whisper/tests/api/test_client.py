"""What is sent to an endpoint, and what is made of its answers."""

from __future__ import annotations

from traceback import format_exception
from types import SimpleNamespace

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import KEY, answer
import numpy as np

from wlk_core import BackendError, OptionError, StreamClosed, load_backend
from wlk_core.testing import load_clip, noise


def asked(backend, audio=None, **how):
    """Make one request of a backend, as a stream would."""
    audio = load_clip("demo").audio[: 16_000 * 3] if audio is None else audio
    return backend._open().transcribe(audio, **{"prompt": "", "language": None, **how})


def sees(languages, give):
    """Return a way to answer that notes the language of the request before."""

    def answered(handler):
        languages.append(handler.language)
        give(handler)

    return answered


def test_loading_sends_nothing(load, server):
    """The first request is the warmup's or a stream's."""
    load()

    assert 0 == server.arrivals


def test_a_request_is_what_the_endpoint_takes(load, server):
    """Model, format and both granularities; no prompt and no language unless there is one."""
    heard = asked(load())
    (given,) = server.received

    assert {
        "model": ["digits"],
        "response_format": ["verbose_json"],
        "timestamp_granularities[]": ["word", "segment"],
    } == given.fields
    assert "en" == heard.language
    assert heard.words


def test_prompt_and_language_are_sent_where_they_are_given(load, server):
    """They belong to the call."""
    asked(load(), prompt="one two", language="en")
    (given,) = server.received

    assert (["one two"], ["en"]) == (given.fields["prompt"], given.fields["language"])


HEARD = {"text": "", "words": []}
REFUSED = answer(400, {"error": {"message": "Unsupported language"}})


@pytest.mark.parametrize(
    ("language", "is_forced", "told"),
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
def test_a_language_is_told_as_endpoints_take_it(load, server, language, is_forced, told):
    """In ISO 639-1 first; then a forced one in Whisper's code, and a detected one not at all."""
    bodies = []
    server.next.extend(
        [sees(bodies, REFUSED)] * (len(told) - 1) + [sees(bodies, answer(200, HEARD))]
    )
    heard = asked(load(), language=language, is_forced=is_forced)

    assert told == bodies
    assert language == heard.language


def test_a_forced_language_that_is_not_taken_is_told(load, server):
    """Another one would be heard than was asked for."""
    server.next.append(REFUSED)
    with pytest.raises(BackendError, match="Unsupported language"):
        asked(load(), language="yue", is_forced=True)

    assert 1 == server.arrivals


def test_a_language_that_was_misheard_is_not_the_end_of_a_stream(load, server):
    """The endpoint takes no Latin, and the stream that it heard some in goes on without it."""
    tongues = []
    one = {"word": "one", "start": 0.2, "end": 0.5}
    latin = answer(200, {"text": "one", "language": "latin", "words": [one]})
    server.next.extend(sees(tongues, give) for give in (latin, latin, REFUSED, latin))
    stream = load().create_processor()
    for _ in range(3):
        stream.insert_audio_chunk(noise(2.0, seed=1))
        stream.process_iter()
    stream.close()

    assert [None, None, "la", None] == tongues


def test_a_translation_is_asked_for_in_its_own_way(load, server):
    """The translations endpoint takes neither language nor granularities (defect B18)."""
    heard = asked(load(), task="translate", prompt="one")
    (given,) = server.received

    assert "/v1/audio/translations" == given.path
    assert {"model", "response_format", "prompt"} == given.fields.keys()
    assert heard.language is None
    assert heard.words


def test_the_audio_arrives_as_it_was(load, server):
    """Sixteen bits are kept, and what is louder than full scale is clipped."""
    audio = noise(2.0, level=0.1, seed=1)
    audio[:2] = (1.5, -1.5)
    asked(load(), audio)
    (given,) = server.received

    np.testing.assert_allclose(given.audio, np.clip(audio, -1.0, 1.0), atol=1 / 32768)


def test_short_audio_is_followed_by_silence(load, server):
    """Endpoints refuse audio under a tenth of a second."""
    asked(load(), noise(0.01, seed=1))

    assert 1.0 == server.received[0].seconds


def test_the_cost_is_counted_by_what_leaves(load, server):
    """Attempts that the client repeats by itself cost like the others."""
    backend = load()
    server.next.append(answer(500, "{}", retry_after_ms="1"))
    asked(backend, noise(2.0, seed=1))
    backend.warmup()
    backend.close()

    assert 3 == backend.cost.requests == server.arrivals
    assert 5.0 == backend.cost.audio_seconds


def test_what_no_endpoint_takes_costs_nothing(load):
    """A refused connection sends no audio."""
    backend = load(base_url="http://127.0.0.1:9/v1", max_retries=0)
    with pytest.raises(BackendError, match="no connection"):
        backend.warmup()

    assert (0, 0.0) == (backend.cost.requests, backend.cost.audio_seconds)


def test_asking_a_proxy_for_the_way_costs_nothing(load, server):
    """Its CONNECT is a request of the HTTP library like the one for the endpoint, without audio."""
    meter = load()._open().meter
    for method, protocol in ((b"CONNECT", "http11"), (b"POST", "http11"), (b"POST", "http2")):
        request = SimpleNamespace(method=method, extensions={})
        meter.watch(request)
        with meter.sending(2.0):
            for event in ("send_request_headers.started", "send_request_body.started"):
                request.extensions["trace"](f"{protocol}.{event}", {"request": request})

    assert (2, 4.0) == (meter.cost.requests, meter.cost.audio_seconds)
    assert 0 == server.arrivals


def test_streams_that_outlive_the_backend_go_on_counting(load, server):
    """What they send is paid for as well."""
    backend = load()
    stream = backend.create_processor()
    backend.close()
    server.next.append(answer(200, {"text": "", "words": []}))
    stream.insert_audio_chunk(noise(1.5, seed=1))
    stream.finish()

    assert (1, 1.5) == (backend.cost.requests, backend.cost.audio_seconds)


def test_the_key_comes_from_the_environment_and_goes_to_the_endpoint(load, server, monkeypatch):
    """OpenAI's own headers stay away from other hosts."""
    monkeypatch.setenv("OTHER_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-host")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin-of-openai")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: pass-1\nAuthorization: Bearer pass-2")
    asked(load(api_key_env="OTHER_KEY"))
    (given,) = server.received

    assert f"Bearer {KEY}" == given.headers["authorization"]
    assert not {"openai-organization", "openai-project", "x-gateway"} & given.headers.keys()
    for secret in ("sk-of-another-host", "sk-admin-of-openai", "pass-1", "pass-2"):
        assert secret not in str(given.headers)


def test_openai_gets_the_headers_that_the_environment_holds_for_it(server, monkeypatch):
    """A gateway of one's organisation may want them; the administrator's key stays at home."""
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: pass-1")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin-of-openai")
    with load_backend("openai-api") as backend:
        client = backend._open()._client

        assert "pass-1" == client.default_headers["X-Gateway"]
        assert client.admin_api_key is None
    assert 0 == server.arrivals


def test_no_proxy_stands_before_this_machine(load, server, monkeypatch):
    """A server of one's own is reached although the environment names a proxy."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    asked(load())

    assert 1 == server.arrivals


def test_a_warmup_is_a_second_of_silence(load, server):
    """It costs little and tells whether URL, key and model are right."""
    load().warmup()
    (given,) = server.received

    assert 1.0 == given.seconds
    assert not given.audio.any()


@pytest.mark.parametrize(
    ("given", "told", "is_retryable"),
    [
        (answer(200, "<html>sign in</html>", content_type="text/html"), "a page of HTML", False),
        (answer(502, "<h1>Bad Gateway</h1>", retry_after_ms="1"), "502 .*HTML: Bad Gateway", True),
        (answer(200, '{"text": "on'), "expected JSON", True),
        (answer(200, {"text": "one two"}), "without `words`", False),
        (answer(429, {"error": {"message": "slow"}}, retry_after_ms="1"), r"429 \(slow\)", True),
        (
            answer(429, {"error": {"code": "insufficient_quota"}}, retry_after_ms="1"),
            "paid for",
            False,
        ),
        (answer(500, "", retry_after_ms="1"), "answered 500", True),
        (answer(400, {"error": {"message": "no verbose_json"}}), "no verbose_json", False),
        (answer(403, {"error": {"message": "region"}}), "OPENAI_API_KEY", False),
        (answer(307, "", location="http://127.0.0.1:9/"), "sends on to http://127.0.0.1:9/", False),
    ],
    ids=[
        "html", "html 502", "damaged", "no words", "429", "quota", "500", "400", "403", "redirect",
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_one_line(load, server, given, told, is_retryable):
    """The line names the URL, says what came and whether another attempt makes sense."""
    server.next.extend([given] * 2)
    with pytest.raises(BackendError, match=told) as caught:
        asked(load(max_retries=1))

    assert is_retryable == caught.value.retryable
    assert server.url in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is not None


def test_a_wrong_key_is_told_without_showing_it(load, server, monkeypatch):
    """The endpoint repeats the key it refuses; the error names its variable instead."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-987654")
    with pytest.raises(BackendError, match=r"401 .* OPENAI_API_KEY; set .* export OP") as caught:
        load().warmup()

    assert not caught.value.retryable
    assert "sk-wrong-987654" not in "".join(format_exception(caught.value))
    assert 1 == server.arrivals


def test_no_cause_of_an_error_shows_the_key(load, server):
    """What the client says is kept as text; its exceptions hold the request and the answer."""
    server.next.append(answer(400, {"error": {"message": f"{'no ' * 63}{KEY}"}}))
    server.next.append(answer(200, f"{'?' * 50}{KEY}"))
    backend = load(max_retries=0)
    for name in ("BadRequestError", "AnswerError"):
        with pytest.raises(BackendError) as caught:
            backend.warmup()
        failures = [caught.value]
        while (cause := failures[-1].__cause__ or failures[-1].__context__) is not None:
            failures.append(cause)

        assert str(failures[1]).startswith(f"{name}: ")
        assert {"ClientError"} == {type(failure).__name__ for failure in failures[1:]}
        assert not any(KEY[:8] in str(failure) for failure in failures)


def test_a_key_that_is_a_common_word_is_no_secret(load, server, monkeypatch):
    """Servers of one's own want any key at all; masking it would take letters from the message."""
    monkeypatch.setenv("OPENAI_API_KEY", "e")
    server.next.append(answer(400, {"error": {"message": "no verbose_json here"}}))
    with pytest.raises(BackendError, match="no verbose_json here"):
        load().warmup()


def test_a_missing_key_is_told(load, server, monkeypatch):
    """A server that wants one names it by its variable."""
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(BackendError, match=r"wants a key, and .* OPENAI_API_KEY holds none"):
        load().warmup()


def test_an_unknown_model_and_a_wrong_path_are_told(load, server):
    """A 404 is either; the endpoint's own words say which."""
    with pytest.raises(BackendError, match=r"`huge` does not exist.*no model huge"):
        load("huge").warmup()
    with pytest.raises(BackendError, match=r"Invalid URL.*the part before /audio/transcriptions"):
        load(base_url=server.url.removesuffix("/v1")).warmup()


def test_busy_and_broken_servers_are_asked_again(load, server, monkeypatch):
    """The client repeats a request after what Retry-After says, else later each time."""
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    server.next.extend(
        [
            answer(429, "{}", retry_after="7"),
            answer(503, "{}"),
            lambda handler: handler.break_off(),
        ]
    )
    heard = asked(load(max_retries=3))

    assert heard.words
    assert 4 == server.arrivals
    assert 7.0 == waits[0] > waits[2] > waits[1] > 0


def test_a_lost_connection_is_told(load, server):
    """An answer that breaks off is worth another attempt."""
    server.next.append(lambda handler: handler.break_off())
    with pytest.raises(BackendError, match=f"no connection to {server.url}, or it was lost") as e:
        asked(load(max_retries=0))

    assert e.value.retryable


def test_a_server_that_is_not_there_is_told(load):
    """The message asks whether it runs."""
    with pytest.raises(BackendError, match=r"no connection to .*see that the server runs") as e:
        load(base_url="http://127.0.0.1:9/v1", max_retries=0).warmup()

    assert e.value.retryable


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_given_up(load, server):
    """A request ends after its time, and the option that allows more is named."""
    released = []
    server.next.append(lambda handler: released.append(handler.rfile.read(1)))
    with pytest.raises(BackendError, match=r"did not answer in time.*timeout_seconds") as e:
        asked(load(max_retries=0, timeout_seconds=0.2))

    assert e.value.retryable


def test_the_language_of_a_translation_cannot_be_told(load):
    """Rather refused than dropped in silence."""
    with pytest.raises(OptionError, match="cannot be told the language of what it translates"):
        load().create_processor(task="translate", language="de")


@pytest.mark.slow
def test_a_closed_backend_sends_nothing(load, server):
    """New streams and warmups are refused; streams that are open go on."""
    backend = load()
    stream = backend.create_processor()
    backend.close()
    for call in (backend.warmup, backend.create_processor):
        with pytest.raises(StreamClosed):
            call()
    stream.insert_audio_chunk(load_clip("demo").audio)

    assert stream.finish().committed
    assert server.arrivals


def test_where_audio_goes_is_told_before_it_does(server, caplog):
    """Without encryption it is a warning; the whole cost is a line at the end."""
    with caplog.at_level("INFO", logger="wlk_whisper.api_backend"):
        load_backend("openai-api", base_url="http://there.example/v1").close()
        load_backend("openai-api", base_url=server.url).close()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    assert ["key and audio go to http://there.example/v1 without encryption"] == warnings
    assert f"audio goes to {server.url}, model whisper-1" in caplog.messages
    assert f"sent 0.0 s of audio in 0 requests to {server.url}" in caplog.messages
