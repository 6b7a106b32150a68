"""Jitsi meetings: the messages of Jigasi, replayed, and the results that it reads."""

from __future__ import annotations

from functools import partial
import json
import uuid

import attrs
import pytest
from starlette.requests import HTTPConnection

from wlk_conformance.protocols import RULES, Client, PlayedSession, SilentStream, speech
from wlk_protocols.jitsi.protocol import JitsiProtocol
from wlk_protocols.jitsi.routes import routes
from wlk_serve.errors import RequestError
from wlk_serve.protocols import StreamOptions

END = b"\0"


def payload(audio, name="a1b2c3d4", language="en-US"):
    """Return a message as `buildPayload` of Jigasi's WhisperWebsocket.java writes it."""
    return f"{name}|{language}".encode().ljust(60, b"\0") + audio


def final_text(messages):
    """Return the joined final results."""
    return " ".join(each["text"] for each in messages if each["type"] == "final")


CLIENT = Client(route=routes()[0], audio=lambda part: [payload(part)], end=[END], text=final_text)


@pytest.fixture
def meeting():
    """Return a meeting with a clock that stands still."""
    opening = CLIENT.route.open
    make = partial(JitsiProtocol, clock=lambda: 1_700_000_000.0)

    def opened(handshake):
        return attrs.evolve(opening(handshake), make=make)

    return PlayedSession(attrs.evolve(CLIENT, route=attrs.evolve(CLIENT.route, open=opened)))


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_every_protocol_is_kept(rule):
    """PRO rules: docs/protocols.md."""
    assert RULES[rule][1](CLIENT) is None


def test_a_result_has_what_jigasi_reads(meeting):
    """Its `onMessage` casts each of the fields; the final result has the id of the interim ones."""
    meeting.send(payload(speech([1, 2])), payload(speech([None] * 8)), END)

    texts = [(each["type"], each["text"]) for each in meeting.messages]
    assert texts == [("interim", "w1"), ("interim", "w1 w2"), ("final", "w1 w2")]
    assert len({uuid.UUID(each["id"]) for each in meeting.messages}) == 1
    for message in meeting.messages:
        assert message["participant_id"] == "a1b2c3d4"
        assert message["ts"] == 1_700_000_000_000
        assert isinstance(json.loads(json.dumps(message))["variance"], float)
    assert meeting.audio.is_over


def test_each_participant_has_the_words_of_a_meeting_alone(meeting):
    """However their messages are mixed."""
    parts = {"ann": [[1], [2, None], [None] * 9, [3]], "bob": [[None], [5], [None] * 8, [6, 7]]}
    for chunk in range(4):
        meeting.send(*(payload(speech(each[chunk]), name) for name, each in parts.items()))
    meeting.send(END)

    for name, pieces in parts.items():
        alone = PlayedSession(CLIENT)
        alone.send(*(payload(speech(each), name) for each in pieces), END)
        own = [each for each in meeting.messages if each["participant_id"] == name]
        assert final_text(own) == final_text(alone.messages) != ""


def test_the_words_of_a_participant_who_is_muted_become_final(meeting):
    """Jigasi then sends nothing for them; the others show how much time has passed."""
    meeting.send(payload(speech([1]), "ann"))
    meeting.send(payload(speech([None] * 19), "bob"))
    before = final_text(meeting.messages)
    meeting.send(payload(speech([None] * 2), "bob"))
    after = final_text(meeting.messages)
    meeting.send(payload(speech([2]), "ann"), END)

    assert (before, after, final_text(meeting.messages)) == ("", "w1", "w1 w2")


def test_whoever_left_gives_up_their_place(meeting):
    """After five minutes of the others; their words are kept, and they may come back."""
    meeting.send(payload(speech([1]), "ann"), payload(speech([2]), "bob"))
    *_, bob = meeting.channels
    for _ in range(10):
        meeting.send(payload(speech([None] * 300), "ann"))
    before = bob.is_over
    meeting.send(payload(speech([None] * 10), "ann"))
    after = bob.is_over
    meeting.send(payload(speech([3]), "bob"), END)

    assert (before, after) == (False, True)
    own = [each for each in meeting.messages if each["participant_id"] == "bob"]
    assert final_text(own) == "w2 w3"
    assert len(meeting.channels) == 3


def test_the_first_who_spoke_keeps_the_place_of_the_meeting(meeting):
    """It ends with the meeting, whoever else speaks."""
    meeting.send(payload(speech([1]), "ann"), payload(speech([None] * 3100), "bob"))
    meeting.send(payload(speech([2]), "ann"), END)

    assert final_text(meeting.messages) == "w1 w2"
    assert len(meeting.channels) == 2


@pytest.mark.parametrize(
    ("language", "code"),
    [("de", "de"), ("en-US", "en"), ("null", "en"), ("", "en"), ("xx-XX", "en")],
)
def test_the_language_of_a_participant_is_that_of_the_header(language, code):
    """One that the model does not have is that of the server: words matter more."""
    session = PlayedSession(CLIENT, SilentStream)
    session.send(payload(speech([1]), "ann", "en"), payload(speech([1]), "bob", language))

    assert [stream.options for stream in session.streams] == [
        StreamOptions(language="en"),
        StreamOptions(language=code),
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [("hello", "60 bytes and audio, got 5 characters"), (b"a|en", "got 4 bytes")],
)
def test_a_message_without_a_header_is_an_error_that_jigasi_can_read(meeting, data, reason):
    """It is a result without text, which Jigasi skips."""
    (message,) = meeting.send(data)

    assert (message["type"], message["text"], message["participant_id"]) == ("error", "", "")
    assert reason in message["error"]["message"]
    assert meeting.send(bytes(60) + speech([1]))[0]["type"] == "error"


def test_participants_without_a_session_are_reported_once(monkeypatch, meeting, caplog):
    """Whatever their names; the others go on, and they join when a session has ended."""
    meeting.send(payload(speech([1]), "ann"))
    opened = meeting.protocol._info.open_channel
    is_full = True

    def open_channel(options, handle):
        if is_full:
            raise RequestError("the limit of 1 sessions is reached", code="server_overloaded")
        return opened(options, handle)

    info = attrs.evolve(meeting.protocol._info, open_channel=open_channel)
    monkeypatch.setattr(meeting.protocol, "_info", info)
    refused = [payload(speech([5]), name, "xx") for name in ("bob", "bob", "eve")]
    answers = meeting.send(*refused)
    warnings = [record.getMessage() for record in caplog.records]
    is_full = False
    meeting.send(payload(speech([7]), "bob", "xx"), END)

    assert [each["type"] for each in answers] == ["error"]
    assert (warnings, len(caplog.records)) == ([], 1)
    assert sorted(final_text(meeting.messages).split()) == ["w1", "w7"]


def test_the_key_of_a_server_is_part_of_the_address():
    """Jigasi appends the meeting to what is configured."""
    scope = {"type": "websocket", "headers": [], "path_params": {"key": "secret", "meeting": "m"}}

    assert routes()[1].keys(HTTPConnection(scope)) == ["secret"]
