"""The URL that audio is sent to, its key, and that no message shows a key."""

from __future__ import annotations

from traceback import format_exception

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import KEY, response, transcribe

from wlk_core import BackendError, BackendUnavailable, ModelNotFoundError, OptionError, load_backend
from wlk_whisper.openai_api.client import DEFAULT_URL, ApiAddress
from wlk_whisper.plugin import OPENAI_API

LOCAL = "http://127.0.0.1:9/v1"


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """Start with a key and no other setting."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    for name in ("OPENAI_BASE_URL", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


def resolve(base_url=None, *, variable="OPENAI_API_KEY", model="whisper-1"):
    """Return the address for these options."""
    return ApiAddress.resolve(base_url, key_variable=variable, model=model)


def test_the_url_is_the_option_else_the_environment_else_openai(monkeypatch):
    """A slash at the end makes no difference."""
    assert resolve().url == DEFAULT_URL
    monkeypatch.setenv("OPENAI_BASE_URL", "https://there.example/v1/")

    assert resolve().url == "https://there.example/v1"
    assert resolve(f"{LOCAL}/").url == LOCAL


def test_a_server_is_used_only_where_it_is_named():
    """It sends audio away and costs money."""
    assert OPENAI_API.preference is None


def test_a_key_is_never_shown():
    """Neither the address nor the refusal of a key instead of its variable shows a key."""
    assert "sk-secret" not in repr(resolve())
    with pytest.raises(OptionError, match="never the key itself") as caught:
        resolve(variable="sk-live-1234")

    assert "sk-live-1234" not in str(caught.value)


def test_openai_requires_a_key_and_a_local_server_does_not(monkeypatch):
    """The message names the variable, the URL and the command that sets it."""
    monkeypatch.delenv("OPENAI_API_KEY")

    assert resolve(LOCAL).key == "none"
    with pytest.raises(BackendUnavailable, match=r"openai\.com/v1 .*export OPENAI_API_KEY=\.\.\."):
        resolve()


@pytest.mark.parametrize("key", ["two words", "schlüssel", "line\nbreak"])
def test_an_invalid_key_is_reported_without_showing_it(monkeypatch, key):
    """A key that is not a valid header is refused before a request is sent."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(BackendUnavailable, match="OPENAI_API_KEY") as caught:
        resolve()

    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "api.openai.com/v1",
        "https://",
        "https://a:port/v1",
        "https://a/v1?key=1",
        "https://a/v1/audio/translations/",
        "https://a/\x1b[31m/v1",
        "https://me:hunter2@there.example/v1",
    ],
)
def test_an_invalid_url_is_refused(url):
    """The message has an example of a valid URL, and no password."""
    with pytest.raises(OptionError, match="base_url is the URL of a server without") as caught:
        resolve(url)

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("model", ["./here", "/models/whisper", "~/whisper"])
def test_a_directory_is_refused_as_a_model(model):
    """The message names the option for the name of a model."""
    with pytest.raises(ModelNotFoundError, match="--model NAME"):
        resolve(model=model)


def test_a_model_without_word_times_is_refused():
    """Streaming needs the times of words."""
    with pytest.raises(OptionError, match=r"returns no word times.*whisper-1"):
        resolve(model="gpt-4o-transcribe")


def test_offline_only_this_machine_is_allowed(monkeypatch):
    """Offline, no audio leaves the machine."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    for url in (LOCAL, "http://localhost:9/v1", "http://[::1]:9/v1"):
        assert resolve(url).is_local
    for url in (None, "http://192.168.1.2/v1", "https://there.example/v1"):
        with pytest.raises(BackendUnavailable, match=r"switched off \(--offline, HF_HUB_OFFLINE\)"):
            resolve(url)


def test_offline_no_server_fetches_a_model(monkeypatch):
    """Offline, a repository is refused as a model, because local servers would fetch it."""
    assert resolve(LOCAL, model="Systran/faster-whisper-small").is_local
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelNotFoundError, match="would fetch"):
        resolve(LOCAL, model="Systran/faster-whisper-small")


def test_the_key_comes_from_the_environment_and_goes_to_the_server(load, server, monkeypatch):
    """OpenAI's own headers are not sent to other hosts."""
    monkeypatch.setenv("OTHER_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-host")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin-of-openai")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: pass-1\nAuthorization: Bearer pass-2")
    transcribe(load(api_key_env="OTHER_KEY"))
    (request,) = server.accepted

    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert not {"openai-organization", "openai-project", "x-gateway"} & request.headers.keys()
    for secret in ("sk-of-another-host", "sk-admin-of-openai", "pass-1", "pass-2"):
        assert secret not in str(request.headers)


def test_openai_receives_its_headers_from_the_environment(server, monkeypatch):
    """The gateway of an organisation may need them; the administrator's key is never sent."""
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: pass-1")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin-of-openai")
    with load_backend("openai-api") as backend:
        client = backend.engine._client

        assert client.default_headers["X-Gateway"] == "pass-1"
        assert client.admin_api_key is None
    assert server.arrivals == 0


def test_requests_to_this_machine_ignore_proxies(load, server, monkeypatch):
    """A local server is reached although the environment names a proxy."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    transcribe(load())

    assert server.arrivals == 1


def test_a_wrong_key_is_reported_without_showing_it(load, server, monkeypatch):
    """The server repeats the key that it rejects; the error names its variable instead."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-987654")
    with pytest.raises(BackendError, match=r"401 .* OPENAI_API_KEY; set .* export OP") as caught:
        load().warmup()

    assert not caught.value.retryable
    assert "sk-wrong-987654" not in "".join(format_exception(caught.value))
    assert server.arrivals == 1


def test_no_error_references_the_key(load, server):
    """The client's exceptions have the request and the response, so they are not the cause."""
    server.next.append(response(400, {"error": {"message": f"{'no ' * 63}{KEY}"}}))
    server.next.append(response(200, f"{'?' * 50}{KEY}"))
    backend = load(max_retries=0)
    for _ in range(2):
        with pytest.raises(BackendError) as caught:
            backend.warmup()

        assert KEY[:8] not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
