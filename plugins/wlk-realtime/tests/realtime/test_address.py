from __future__ import annotations

import pytest

from wlk_core.plugins import BackendUnavailable, ModelNotFoundError, OptionError
from wlk_realtime.realtime.address import Address, ServerAccess, read_key


@pytest.mark.parametrize(
    ("reference", "host", "models", "model"),
    [
        ("ws://gpu:8000/v1/realtime", "gpu", "http://gpu:8000/v1/models", None),
        (
            "wss://gpu.example/v1/realtime#a/b",
            "gpu.example",
            "https://gpu.example/v1/models",
            "a/b",
        ),
        ("ws://[::1]/speech/realtime/", "::1", "http://[::1]/speech/models", None),
        ("ws://gpu/v1/realtime?x=1", "gpu", "http://gpu/v1/models", None),
    ],
)
def test_a_model_is_the_address_of_a_server(reference, host, models, model):
    """A name can follow after "#"; the list of models is a sibling of the WebSocket."""
    address = Address.parse(reference)

    assert (address.host, address.model) == (host, model)
    assert f"{address.origin}{address.models_path}" == models


@pytest.mark.parametrize(
    "reference", [None, "owner/model", "http://gpu/v1", "ws://gpu:0/", "ws://a b"]
)
def test_anything_else_is_a_model_that_cannot_be_found(reference):
    """The message shows how to write an address."""
    with pytest.raises(ModelNotFoundError, match="--model ws://HOST:8000/v1/realtime"):
        Address.parse(reference)


def test_an_address_contains_no_password():
    """A password in the URL is refused, and the error does not repeat it."""
    with pytest.raises(OptionError, match="api_key_env") as raised:
        Address.parse("ws://anna:secret@gpu/v1/realtime")
    assert "secret" not in str(raised.value)


def test_offline_mode_allows_this_machine_alone(monkeypatch):
    """No audio leaves the machine; the message names the address and what to do."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    assert Address.parse("ws://127.1.2.3:8000/v1/realtime").is_local
    with pytest.raises(BackendUnavailable, match=r"localhost\.evil.*network is switched off"):
        Address.parse("ws://localhost.evil.example:8000/v1/realtime")


def test_a_key_comes_from_the_environment(monkeypatch):
    """If the variable is not set, no key is sent."""
    monkeypatch.setenv("SOME_KEY", " abc ")

    assert (read_key("SOME_KEY"), read_key("NO_SUCH_VARIABLE")) == ("abc", None)


@pytest.mark.parametrize(
    ("host", "key", "names"),
    [
        ("gpu", None, set()),
        ("gpu", "abc", {"Authorization"}),
        ("mine.openai.azure.com", "abc", {"Authorization", "api-key"}),
        ("azure.com.evil.example", "abc", {"Authorization"}),
    ],
)
def test_a_key_is_sent_as_the_server_reads_it(host, key, names):
    """Azure has its own header: https://learn.microsoft.com/azure/ai-services/openai."""
    access = ServerAccess(address=Address.parse(f"wss://{host}/v1/realtime"), key=key)

    assert set(access.headers) == names
    assert all(value.removeprefix("Bearer ") == key for value in access.headers.values())


def test_a_key_that_cannot_be_one_is_refused(monkeypatch):
    """A key given as the name of the variable would be logged; keys contain no spaces."""
    monkeypatch.setenv("SOME_KEY", "a b")

    with pytest.raises(OptionError, match="never the key itself") as raised:
        read_key("sk-secret")
    assert "secret" not in str(raised.value)
    with pytest.raises(BackendUnavailable, match="export SOME_KEY"):
        read_key("SOME_KEY")
