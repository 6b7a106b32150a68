"""Where audio may go, and with which key."""

from __future__ import annotations

import pytest

from wlk_core import BackendUnavailable, ModelNotFoundError, OptionError
from wlk_whisper.api_endpoint import DEFAULT_URL, Endpoint

HERE = "http://127.0.0.1:9/v1"


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    """Begin with a key and nothing else."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    for name in ("OPENAI_BASE_URL", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


def find(base_url=None, *, variable="OPENAI_API_KEY", model="whisper-1"):
    """Return the endpoint for these options."""
    return Endpoint.find(base_url, key_variable=variable, model=model)


def test_the_url_is_the_option_else_the_environment_else_openai(monkeypatch):
    """A slash at the end makes no difference."""
    assert DEFAULT_URL == find().url
    monkeypatch.setenv("OPENAI_BASE_URL", "https://there.example/v1/")

    assert "https://there.example/v1" == find().url
    assert HERE == find(f"{HERE}/").url


def test_each_key_has_a_variable_of_its_own(monkeypatch):
    """The key for another host need not be put where OpenAI's is."""
    monkeypatch.setenv("OTHER_KEY", "gsk-other")

    assert "gsk-other" == find("https://there.example/v1", variable="OTHER_KEY").key


def test_a_key_is_never_shown():
    """Neither by the endpoint nor by the refusal of a key in the place of its variable."""
    assert "sk-secret" not in repr(find())
    with pytest.raises(OptionError, match="never the key itself") as caught:
        find(variable="sk-live-1234")

    assert "sk-live-1234" not in str(caught.value)


def test_openai_wants_a_key_and_a_server_of_ones_own_need_not(monkeypatch):
    """The message names the variable, the URL and the command that sets it."""
    monkeypatch.delenv("OPENAI_API_KEY")

    assert "none" == find(HERE).key
    with pytest.raises(BackendUnavailable, match=r"openai\.com/v1 .*export OPENAI_API_KEY=\.\.\."):
        find()


@pytest.mark.parametrize("key", ["two words", "schlüssel", "line\nbreak"])
def test_what_cannot_be_a_key_is_told_without_showing_it(monkeypatch, key):
    """A key that would not pass as a header is refused before anything is sent."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(BackendUnavailable, match="OPENAI_API_KEY") as caught:
        find()

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
    ],
)
def test_what_is_no_url_of_an_endpoint_is_refused(url):
    """The message says what such a URL looks like."""
    with pytest.raises(OptionError, match="base_url is the URL of an endpoint without"):
        find(url)


def test_a_password_in_the_url_is_refused_without_showing_it():
    """Keys come from the environment."""
    with pytest.raises(OptionError, match="keys come from the environment") as caught:
        find("https://me:hunter2@there.example/v1")

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("model", ["./here", "/models/whisper", "~/whisper"])
def test_a_directory_is_no_model_of_an_endpoint(model):
    """The message names the option that takes a name."""
    with pytest.raises(ModelNotFoundError, match="--model NAME"):
        find(model=model)


def test_a_model_without_word_times_is_refused():
    """Streaming needs to know where words lie."""
    with pytest.raises(OptionError, match=r"gives no times of words.*whisper-1"):
        find(model="gpt-4o-transcribe")


def test_offline_only_this_machine_is_asked(monkeypatch):
    """Audio that must not leave does not leave."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    for url in (HERE, "http://localhost:9/v1", "http://[::1]:9/v1"):
        assert find(url).is_here
    for url in (None, "http://192.168.1.2/v1", "https://there.example/v1"):
        with pytest.raises(BackendUnavailable, match=r"switched off \(--offline, HF_HUB_OFFLINE\)"):
            find(url)


def test_offline_no_server_is_made_to_fetch_a_model(monkeypatch):
    """A repository is what servers on this machine fetch by themselves."""
    assert find(HERE, model="Systran/faster-whisper-small").is_here
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelNotFoundError, match="would fetch"):
        find(HERE, model="Systran/faster-whisper-small")
