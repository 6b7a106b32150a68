"""Realtime translation keeps the rules of protocols, and works with OpenAI's own client."""

from __future__ import annotations

import base64
import json

import attrs
import pytest

pytest.importorskip("wlk_serve", reason="pip install 'wlk-translate[serve]'")

from wlk_conformance.protocols import CARD, RULES, Client, PlayedSession, SilentStream
from wlk_core.errors import BackendError
from wlk_core.tokens import ASRToken, TranslatedText
from wlk_live.session import Commit, Failure, Translation
from wlk_serve.protocols import RequestError
from wlk_translate.routes import routes

(ROUTE,) = routes()
GERMAN = attrs.evolve(CARD, translates_to="de")


def message(kind, **fields):
    """Return a message from a client."""
    return json.dumps({"type": f"session.{kind}", **fields})


def append(part):
    """Return the message that appends a part of the audio."""
    return [message("input_audio_buffer.append", audio=base64.b64encode(part).decode())]


def text(messages):
    """Return the transcript."""
    kind = "session.input_transcript.delta"
    return "".join(message["delta"] for message in messages if message["type"] == kind)


def opened(handshake):
    """Return what a server that translates to German opens for a client."""
    opening = ROUTE.open(attrs.evolve(handshake, card=lambda _name: GERMAN))
    return attrs.evolve(
        opening, make=lambda audio, info: opening.make(audio, attrs.evolve(info, card=GERMAN))
    )


TRANSCRIPT = {"audio": {"input": {"transcription": {"model": "whisper"}}}}
CLIENT = Client(
    route=attrs.evolve(ROUTE, open=opened),
    rate=24_000,
    begin=[message("update", session=TRANSCRIPT)],
    audio=append,
    end=[message("close")],
    text=text,
)


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_is_kept(rule):
    """PRO rules: docs/protocols.md."""
    assert RULES[rule][1](CLIENT) is None


@pytest.fixture
def session():
    """Return a session that has received audio."""
    session = PlayedSession(CLIENT, SilentStream)
    session.send(*append(bytes(4800)))
    return session


def translated(words, start=0.0):
    """Return the event of a translation."""
    return Translation(TranslatedText(words, start, start + 1.0, "de"), 9.0)


def test_deltas_join_to_the_text_of_each_language(session):
    """Clients need not add spaces; without a transcription, only the translation is sent."""
    said = Commit((ASRToken(0.0, 0.5, " one"), ASRToken(0.5, 0.9, " two")), 1.0)
    alone = session.happen(said, translated("eins,"), translated("zwei", 1.0))
    session.send(message("update", session=TRANSCRIPT))
    (both,) = session.happen(said)

    assert [each["delta"] for each in alone] == ["eins,", " zwei"]
    assert [each["elapsed_ms"] for each in alone] == [1000, 2000]
    assert (both["type"], both["delta"]) == ("session.input_transcript.delta", " one two")


def test_scripts_without_spaces_get_none(session):
    """Chinese is one of them."""
    found = session.happen(translated("我们"), translated("走吧", 1.0))

    assert "".join(each["delta"] for each in found) == "我们走吧"


def test_the_configuration_says_what_the_server_does(session):
    """It supports no other language and no noise reduction."""
    wish = {"audio": {"output": {"language": "German"}, "input": {"noise_reduction": {}}}}
    (updated,) = session.send(message("update", session=wish))
    (refused,) = session.send(message("update", session={"audio": {"output": {"language": "fr"}}}))

    assert updated["session"]["audio"]["output"] == {"language": "de"}
    assert updated["session"]["audio"]["input"] == {"transcription": None, "noise_reduction": None}
    assert refused["error"]["param"] == "session.audio.output.language"


def test_a_translator_that_fails_is_an_error_and_the_transcript_goes_on(session):
    """Otherwise, the client would wait for translations forever."""
    session.send(message("update", session=TRANSCRIPT))
    lost = BackendError("out of memory", retryable=False)
    names = ("turn detector", "translator")  # a failed turn detector does not affect translations
    (error,) = session.happen(*(Failure(lost, False, 1.0, annotator=name) for name in names))
    (delta,) = session.happen(Commit((ASRToken(0.0, 0.5, " one"),), 1.0))

    assert error["type"] == "error"
    assert delta["delta"] == " one"


def test_a_session_without_audio_is_closed_at_once():
    """It is closed only once."""
    session = PlayedSession(CLIENT, SilentStream)

    assert [each["type"] for each in session.send(message("close"))] == ["session.closed"]
    assert session.send(message("close")) == []


def test_a_server_that_does_not_translate_refuses_the_socket():
    """The message names the missing option."""
    with pytest.raises(RequestError, match="wlk-serve --translate-to LANG"):
        PlayedSession(attrs.evolve(CLIENT, route=ROUTE))


def test_the_messages_are_those_of_openais_client(session):
    """Its models of server events accept all of them."""
    pytest.importorskip("openai", reason="install openai[realtime]")
    from openai.types.realtime import realtime_translation_server_event as events  # noqa: PLC0415
    from pydantic import TypeAdapter  # noqa: PLC0415

    session.happen(translated("eins"))
    session.send(message("update", session={}), message("nothing"))
    adapter = TypeAdapter(events.RealtimeTranslationServerEvent)
    found = [type(adapter.validate_python(each)).__name__ for each in session.messages]

    assert found[0] == "RealtimeTranslationSessionCreatedEvent"
    assert "RealtimeTranslationOutputTranscriptDeltaEvent" in found
    assert found[-1] == "RealtimeErrorEvent"
