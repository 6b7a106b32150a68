"""What clients learn about the model: its name, and what its backend declares."""

from __future__ import annotations

import attrs
import pytest

from wlk_core.options import Option
from wlk_serve.errors import RequestError
from wlk_serve.protocols import ModelCard


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("large-v3", "large-v3"),
        ("owner/name", "owner/name"),
        ("/models/whisper-small", "whisper-small"),
        ("./whisper-small", "whisper-small"),
        (None, "toy"),
    ],
)
def test_a_model_is_named_as_it_was_loaded(spec, model, expected):
    """Clients see only the last part of a directory; the rest is private to the server."""
    assert ModelCard.of(spec, model).name == expected


@pytest.mark.parametrize("name", ["whisper-1", "toy/whisper-1"])
def test_a_served_name_replaces_that_of_the_model(spec, name):
    """Clients with a fixed model name can then use any model."""
    card = ModelCard.of(spec, "large-v3", served_names=["whisper-1"])
    card.check_name(name)

    assert card.record()["id"] == "whisper-1"


@pytest.mark.parametrize("name", ["large-v3", "toy/large-v3", "toy", "whisper-2"])
def test_another_name_is_answered_with_the_one_that_is_served(spec, name):
    """The model's own name is refused, too."""
    card = ModelCard.of(spec, "large-v3", served_names=["whisper-1"])

    with pytest.raises(RequestError, match="is not served here; use 'whisper-1'") as refused:
        card.check_name(name)

    assert (
        refused.value.status, refused.value.code, refused.value.param,
    ) == (404, "model_not_found", "model")  # fmt: skip


def test_a_served_name_changes_nothing_that_the_backend_declares(spec):
    """A digits model is declared as such whatever its name is."""
    spec = attrs.evolve(spec, models={"digits": "bundled"}, digit_models=("digits",))
    plain, renamed = ModelCard.of(spec, "digits"), ModelCard.of(spec, "digits", served_names=["x"])

    assert plain.record()["wlk"]["recognises_digits"]
    assert plain.record()["wlk"] == renamed.record()["wlk"]


def test_each_of_several_names_stands_for_the_model(spec):
    """Clients with different fixed names share a server, and each is answered with its own."""
    card = ModelCard.of(spec, "large-v3", served_names=["whisper-1", "gpt-transcribe", "whisper-1"])

    assert card.names == ("whisper-1", "gpt-transcribe")
    assert [card.named(name).name for name in (None, "whisper-1", "toy/gpt-transcribe")] == [
        "whisper-1", "whisper-1", "gpt-transcribe",
    ]  # fmt: skip
    assert card.named("gpt-transcribe").has_name("whisper-1")
    with pytest.raises(RequestError, match="use 'whisper-1' or 'gpt-transcribe'"):
        card.check_name("large-v3")


def test_a_model_that_takes_the_language_from_the_audio_ignores_that_of_a_client(spec):
    """Home Assistant and LiveKit always send one; refused, they would have no words."""
    spec = attrs.evolve(spec, languages=(), capabilities=())
    card = ModelCard.of(spec, "large-v3")

    assert [card.check_language(code) for code in ("en", "en-US", "de,fr", "auto", "")] == [
        None
    ] * 5
    with pytest.raises(RequestError, match="as a string"):
        card.check_language(7)


def test_auto_detects_the_language_and_an_empty_one_is_that_of_the_server(spec):
    """The command line takes "auto" in the same sense."""
    card = ModelCard.of(spec, "large-v3", "fr")

    assert [card.check_language(text) for text in ("auto", "AUTO", "", "en-US")] == [
        None, None, "fr", "en",
    ]  # fmt: skip


def test_several_languages_are_a_choice_for_the_model_that_can_choose(spec):
    """For another, the client is told before it sends audio."""
    chooses = attrs.evolve(spec, options=(Option(name="languages", scope="stream"),))

    assert ModelCard(name="small", spec=chooses).check_language("en-US, French") == "en,fr"
    with pytest.raises(RequestError, match="toy cannot detect among some languages only"):
        ModelCard(name="small", spec=spec).check_language("en,fr")
