"""Keys and headers: where they go, and that no message shows them."""

from __future__ import annotations

from traceback import format_exception

import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from api_server import KEY, response
from engine_call import transcribe

from wlk_core import BackendError, load_backend


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


def test_a_wrong_key_is_reported_without_showing_it(load, server, monkeypatch):
    """The endpoint repeats the key that it rejects; the error names its variable instead."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-987654")
    with pytest.raises(BackendError, match=r"401 .* OPENAI_API_KEY; set .* export OP") as caught:
        load().warmup()

    assert not caught.value.retryable
    assert "sk-wrong-987654" not in "".join(format_exception(caught.value))
    assert 1 == server.arrivals


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


def test_a_missing_key_is_reported(load, server, monkeypatch):
    """The error of a server that requires a key names the variable."""
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(BackendError, match=r"requires a key, and .* OPENAI_API_KEY is not set"):
        load().warmup()
