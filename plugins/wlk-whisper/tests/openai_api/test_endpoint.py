"""The URL that audio is sent to, and its key."""

from __future__ import annotations

import pytest

from wlk_core import BackendUnavailable, ModelNotFoundError, OptionError
from wlk_whisper.openai_api.endpoint import DEFAULT_URL, Endpoint

LOCAL = "http://127.0.0.1:9/v1"


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """Start with a key and no other setting."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    for name in ("OPENAI_BASE_URL", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


def resolve(base_url=None, *, variable="OPENAI_API_KEY", model="whisper-1"):
    """Return the endpoint for these options."""
    return Endpoint.resolve(base_url, key_variable=variable, model=model)


def test_the_url_is_the_option_else_the_environment_else_openai(monkeypatch):
    """A slash at the end makes no difference."""
    assert DEFAULT_URL == resolve().url
    monkeypatch.setenv("OPENAI_BASE_URL", "https://there.example/v1/")

    assert "https://there.example/v1" == resolve().url
    assert LOCAL == resolve(f"{LOCAL}/").url


def test_a_key_is_never_shown():
    """Neither the endpoint nor the refusal of a key instead of its variable shows a key."""
    assert "sk-secret" not in repr(resolve())
    with pytest.raises(OptionError, match="never the key itself") as caught:
        resolve(variable="sk-live-1234")

    assert "sk-live-1234" not in str(caught.value)


def test_openai_requires_a_key_and_a_local_server_does_not(monkeypatch):
    """The message names the variable, the URL and the command that sets it."""
    monkeypatch.delenv("OPENAI_API_KEY")

    assert "none" == resolve(LOCAL).key
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
        "ftp://a/v1",
        "https://",
        "https://a:port/v1",
        "https://a/v1?key=1",
        "https://a/v1/audio/transcriptions",
        "https://a/v1/audio/translations",
        "https://a/v1/audio/translations/",
        "https://a/\x1b[31m/v1",
        "https://a/v 1",
    ],
)
def test_an_invalid_url_is_refused(url):
    """The message has an example of a valid URL."""
    with pytest.raises(OptionError, match="base_url is the URL of an endpoint without"):
        resolve(url)


def test_a_password_in_the_url_is_refused_without_showing_it():
    """Keys come from the environment."""
    with pytest.raises(OptionError, match="keys come from the environment") as caught:
        resolve("https://me:hunter2@there.example/v1")

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
