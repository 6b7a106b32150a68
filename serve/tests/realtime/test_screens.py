"""Translations and lag in a Realtime session, for the clients that ask for them."""

from __future__ import annotations

import attrs
import pytest

from wlk_core.errors import BackendError
from wlk_core.tokens import TranslatedText
from wlk_live.session.events import Commit, Failure, Lag, Translation
from wlk_serve.realtime.config import default_config, update_config

from .conftest import SECOND

BOTH = {"include": ["wlk.translation", "wlk.lag"]}
GERMAN = TranslatedText("null eins", 0.0, 1.0, "de")


@pytest.fixture
def card(card):
    """Return the card of a server that translates."""
    return attrs.evolve(card, translates_to="de")


@pytest.fixture
def happen(client, protocol, streams):
    """Return a function that opens a session and returns the messages of events of its stream."""

    def happen(session, *events):
        client("session.update", session=session)
        client("input_audio_buffer.append", audio=SECOND)
        return protocol.handle(streams[-1], events)

    return happen


def test_a_client_that_asks_for_translations_gets_them_with_their_times(happen, token, streams):
    """They come as they are made, after the words."""
    words = Commit((token(" zero", 0.0, 0.5), token(" one", 0.5, 1.0)), 1.0)
    delta, translation = happen(BOTH, words, Translation(GERMAN, 1.5))
    fields = {"type": "wlk.translation", "start": 0.0, "end": 1.0, "text": "null eins"}

    assert delta["delta"] == "zero one"
    assert translation == fields | {"language": "de", "event_id": translation["event_id"]}
    assert streams[-1].options.translates


def test_a_server_that_is_late_says_how_much_and_when_it_has_caught_up(happen):
    """The seconds are those of the audio that waits; 0 means that none does."""
    late, caught_up = happen(BOTH, Lag(3.25, 9.0), Lag(0.0, 12.0))

    assert [(each["type"], each["seconds"]) for each in (late, caught_up)] == [
        ("wlk.lag", 3.25),
        ("wlk.lag", 0.0),
    ]


def test_a_client_that_asks_for_nothing_gets_the_messages_of_openai(happen, streams):
    """Its session is not translated, which costs the server something."""
    assert happen({}, Translation(GERMAN, 1.0), Lag(3.0, 9.0)) == []
    assert not streams[-1].options.translates


def test_a_failed_translator_is_reported_once_and_words_go_on(happen, token):
    """The session shows that no translation follows."""
    failure = Failure(BackendError("no memory"), False, 1.0, annotator="translator")
    updated, delta = happen(BOTH, failure, Commit((token(" zero"),), 1.0))

    assert (updated["type"], updated["session"]["wlk"]["translation"]) == ("session.updated", None)
    assert delta["delta"] == "zero"


@pytest.mark.parametrize(("target", "ignored"), [("de", []), (None, ["include.wlk.translation"])])
def test_a_server_without_a_translator_ignores_the_request(card, target, ignored):
    """As with other fields that a server cannot honour, the session lists it."""
    card = attrs.evolve(card, translates_to=target)
    config = update_config(default_config(card), BOTH, card)

    assert list(config.ignored) == ignored
    assert ("wlk.translation" in config.include) is (target is not None)
