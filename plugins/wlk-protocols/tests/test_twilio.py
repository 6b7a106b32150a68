"""Phone calls by Twilio's media streams: what followers of a call learn, whatever comes."""

from __future__ import annotations

import base64
import json

import attrs
import numpy as np
import pytest
from starlette.datastructures import Headers, QueryParams

from wlk_conformance.protocols import (
    CARD,
    RULES,
    Client,
    PlayedSession,
    SilentStream,
    speech,
)
from wlk_protocols.twilio import routes as addresses
from wlk_serve.errors import RequestError
from wlk_serve.protocols import Handshake, SessionAudio, SessionInfo

CALL, STREAM = "CA0b1c", "MZ18ad"
SILENCE = 255
# As recorded from Twilio's examples, with the values of the reference.
CONNECTED = {"event": "connected", "protocol": "Call", "version": "1.0.0"}
START = {
    "event": "start",
    "sequenceNumber": "1",
    "start": {
        "accountSid": "AC1",
        "streamSid": STREAM,
        "callSid": CALL,
        "tracks": ["inbound", "outbound"],
        "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
        "customParameters": {"FirstName": "Jane"},
    },
    "streamSid": STREAM,
}
MARK = {"event": "mark", "streamSid": STREAM, "mark": {"name": "hello"}}
DTMF = {"event": "dtmf", "streamSid": STREAM, "dtmf": {"track": "inbound_track", "digit": "1"}}
STOP = {"event": "stop", "streamSid": STREAM, "stop": {"accountSid": "AC1", "callSid": CALL}}


@pytest.fixture(autouse=True)
def words_in_mulaw(monkeypatch):
    """Let code n of mu-law be the sample of word n in `speech`, and 255 silence."""
    table = np.array([*range(1000, 1255), 0], np.float32) / 32_768
    monkeypatch.setattr("wlk_live.audio.pcm._g711_table", lambda _encoding: table)


def codes(part):
    """Return 16-bit audio in that encoding."""
    samples = np.frombuffer(part, "<i2")
    return np.where(samples, samples - 1000, SILENCE).astype(np.uint8).tobytes()


def media(audio, chunk="", timestamp="", track="inbound"):
    """Return a message with audio."""
    fields = {"track": track, "chunk": str(chunk), "timestamp": str(timestamp)}
    payload = base64.b64encode(audio).decode()
    return json.dumps({"event": "media", "media": {**fields, "payload": payload}})


def said(numbers):
    """Return the audio of words, in a tenth of a second each."""
    return codes(speech(numbers, 8000))


def final_text(messages):
    """Return the joined texts of the utterances."""
    return " ".join(each["text"] for each in messages if each["type"] == "call.final")


def media_client(query="transcripts=true"):
    """Return Twilio, or a program that passes its messages on and reads the answers."""
    return Client(
        route=addresses.routes()[0],
        query=query,
        rate=8000,
        begin=[json.dumps(CONNECTED), json.dumps(START)],
        audio=lambda part: [media(codes(part))],
        end=[json.dumps(MARK), json.dumps(STOP)],
        text=final_text,
    )


@attrs.define
class Follower:
    """Somebody who follows a call, and everything that was received."""

    protocol: object
    audio: SessionAudio
    messages: list


@pytest.fixture
def line():
    """Return a call's session, whose answers go to followers, and a function that adds one."""
    media_route, _, follow_route = addresses.routes()
    client = attrs.evolve(media_client(""), route=media_route)

    def follow(query=f"callSid={CALL}", *, key_id=""):
        opening = follow_route.open(
            Handshake(
                headers=Headers({}),
                query=QueryParams(query),
                subprotocols=[],
                secret=None,
                card=lambda _name: CARD,
                key_id=key_id,
            )
        )
        audio, messages = SessionAudio(opening.options), []
        protocol = opening.make(audio, SessionInfo(id="1", card=CARD, send=messages.extend))
        messages += protocol.begin()
        return Follower(protocol, audio, messages)

    follow.begin_another = lambda: PlayedSession(client)
    return PlayedSession(client), follow


def send(session, *events):
    """Send events to a session; return its answers."""
    return session.send(*(each if isinstance(each, str) else json.dumps(each) for each in events))


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_every_protocol_is_kept(rule):
    """PRO rules, for a program that reads the answers: docs/protocols.md."""
    assert RULES[rule][1](media_client()) is None


def test_twilio_is_sent_nothing_and_the_followers_everything(line):
    """They get both tracks, with words in seconds of the call, and the end of the call."""
    session, follow = line
    before, of_all, elsewhere = follow(), follow(""), follow("callSid=CA9")
    send(session, CONNECTED, START, MARK, DTMF)
    send(session, media(said([1, 2]), 1, 0), media(said([7]), 1, 500, "outbound"))
    send(session, STOP)

    assert session.messages == elsewhere.messages == []
    assert before.messages == of_all.messages
    kinds = [message["type"] for message in before.messages]
    assert (kinds[0], kinds[-1]) == ("call.started", "call.ended")
    assert before.messages[0]["customParameters"] == {"FirstName": "Jane"}
    finals = {each["track"]: each for each in before.messages if each["type"] == "call.final"}
    assert finals["inbound"]["text"] == "w1 w2"
    assert finals["outbound"]["words"] == [
        {"word": "w7", "start": 0.5, "end": 0.6, "confidence": 0.5}
    ]
    assert {(each["callSid"], each["streamSid"]) for each in before.messages} == {(CALL, STREAM)}
    assert before.audio.is_over
    assert not of_all.audio.is_over


def test_a_follower_who_comes_late_gets_what_was_said(line):
    """But no text that has changed since."""
    session, follow = line
    send(session, START, media(said([1, *[None] * 9, 2])))

    assert [each["type"] for each in follow().messages] == ["call.started", "call.final"]


def test_the_words_of_each_track_equal_a_call_with_that_track_alone(line):
    """However the messages of both are mixed."""
    session, follow = line
    parts = {
        "inbound": [[1], [2, None], [None] * 9, [3]],
        "outbound": [[None], [5], [None] * 12, [6, 7]],
    }
    follower = follow()
    send(session, START)
    for chunk in range(4):
        send(
            session,
            *(media(said(each[chunk]), chunk + 1, track=name) for name, each in parts.items()),
        )
    send(session, STOP)

    for name, pieces in parts.items():
        alone = PlayedSession(media_client())
        send(
            alone, START, *(media(said(each), n, track=name) for n, each in enumerate(pieces)), STOP
        )
        finals = [each for each in follower.messages if each["type"] == "call.final"]
        assert [each for each in finals if each["track"] == name] == [
            each for each in alone.messages if each["type"] == "call.final"
        ]


def test_media_without_a_start_is_transcribed(line):
    """The start only names the call."""
    session, follow = line
    follower = follow("")
    send(session, media(said([1])), STOP)

    assert final_text(follower.messages) == "w1"
    assert {each["callSid"] for each in follower.messages} == {""}


def test_a_lost_socket_ends_the_call_like_a_stop_in_mid_word(line):
    """The server calls `end`; half a word is a word."""
    session, follow = line
    follower = follow()
    send(session, START, media(said([1, 2])))
    session.shut_down()

    assert final_text(follower.messages) == "w1 w2"
    assert follower.messages[-1]["type"] == "call.ended"


def test_a_payload_that_cannot_be_read_does_not_keep_the_call_from_ending(line):
    """Media is appended as it comes, whatever its numbers: nothing is left for the stop."""
    session, follow = line
    follower = follow()
    send(session, START, media(said([1]), 1))
    send(session, {"event": "media", "media": {"payload": "?", "chunk": "3"}}, STOP)

    kinds = [message["type"] for message in follower.messages]
    assert kinds.count("call.error") == 1
    assert kinds[-2:] == ["call.final", "call.ended"]
    assert session.audio.is_over


def test_an_hour_without_media_costs_one_gap(line):
    """Times stay those of the call, and no audio is made up."""
    _, follow = line
    session = PlayedSession(attrs.evolve(media_client()), SilentStream)
    hour = 3_600_000
    send(session, START, media(said([1]), 1, 0), media(said([2]), 2, hour + 100))
    send(session, media(said([3]), 3, hour + 210))

    (stream,) = session.streams
    assert stream.calls[:4] == [
        ("receive", 800),
        ("skip", 3600.0),
        ("receive", 800),
        ("receive", 800),
    ]
    assert session.audio.seconds == pytest.approx(3600.3)
    assert follow().messages == []


@pytest.mark.parametrize("first", [88, 171])
def test_the_first_timestamp_of_a_real_call_is_not_a_gap(first):
    """
    The audio of a call begins with its first media message.

    In public logs of two calls, timestamps are 20 ms apart, and the first ones are 88 and 171 ms.
    """
    session = PlayedSession(attrs.evolve(media_client()), SilentStream)
    frame = bytes([SILENCE]) * 160
    send(session, START, *(media(frame, n + 1, first + 20 * n) for n in range(100)))

    (stream,) = session.streams
    assert {call for call, _ in stream.calls} == {"receive"}
    assert session.audio.seconds == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"event": "media", "media": {"payload": "?"}}, "the payload in base64"),
        ({"event": "media", "media": {"payload": 1}}, "got `int`"),
        ({"event": "media", "media": {"payload": "", "track": "third"}}, "inbound or outbound"),
        ({"event": "media", "media": {"payload": "", "timestamp": "-1"}}, "got '-1'"),
        (
            {"event": "media", "media": {"payload": "", "timestamp": "9" * 12}},
            "as at most 8 digits",
        ),
        ({"event": "media"}, "got 'media'"),
        ({"event": "hello"}, "got 'hello'"),
    ],
)
def test_a_message_that_has_no_meaning_is_an_error_and_the_call_goes_on(line, event, reason):
    """The followers are told what was expected."""
    session, follow = line
    follower = follow()
    send(
        session,
        START,
        media(said([1]), track="outbound"),
        event,
        media(said([2]), track="outbound"),
    )
    send(session, STOP)

    (error,) = (each["error"] for each in follower.messages if each["type"] == "call.error")
    assert reason in error["message"]
    assert final_text(follower.messages) == "w1 w2"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"customParameters": {"language": "xx"}}, "'xx'"),
        ({"mediaFormat": {"encoding": "audio/x-l16", "sampleRate": 8000}}, "audio/x-mulaw"),
    ],
    ids=["language", "format"],
)
def test_a_start_that_asks_for_what_is_not_there_ends_the_stream(line, changed, reason):
    """Its words would be wrong throughout."""
    session, follow = line
    follower = follow()
    send(session, {**START, "start": {**START["start"], **changed}})

    assert session.audio.is_over
    *_, error, ended = follower.messages
    assert reason in error["error"]["message"]
    assert ended["type"] == "call.ended"


def test_the_parameters_of_the_twiml_choose_language_and_terms(line):
    """Twilio passes them on in the start."""
    session, _ = line
    chosen = {"language": "de-DE", "keyterms": "wlk, Silero"}
    send(session, {**START, "start": {**START["start"], "customParameters": chosen}})

    assert (session.audio.options.language, session.audio.options.keyterms) == (
        "de",
        "wlk, Silero",
    )


def test_a_failed_engine_is_reported_once_and_ends_the_call(line):
    """The other track is completed first."""
    session, follow = line
    follower = follow()
    send(session, START, media(said([1])), media(said([2]), track="outbound"))
    session.streams[0].fail()
    session.happen()
    send(session, STOP)

    kinds = [message["type"] for message in follower.messages]
    assert (kinds.count("call.error"), kinds[-1]) == (1, "call.ended")
    assert final_text(follower.messages) == "w2"


def test_a_call_whose_session_was_dropped_is_forgotten_when_another_begins(line):
    """Its followers are not left waiting, and its own end, which comes later, changes nothing."""
    session, follow = line
    follower = follow()
    send(session, START)
    session.audio.close()
    follow.begin_another()
    session.shut_down()

    assert follower.audio.is_over


def test_a_track_without_a_place_is_reported_once_and_joins_when_there_is_one(line, monkeypatch):
    """Another session may end during the call; errors are not kept for later followers."""
    session, follow = line
    follower = follow()
    opened = session.protocol._info.open_channel
    is_full = True

    def open_channel(options, handle):
        if is_full:
            raise RequestError("the limit of 1 sessions is reached", code="server_overloaded")
        return opened(options, handle)

    info = attrs.evolve(session.protocol._info, open_channel=open_channel)
    monkeypatch.setattr(session.protocol, "_info", info)
    send(session, START, media(said([1]), timestamp=0))
    send(session, *(media(said([5]), timestamp=100 * n, track="outbound") for n in range(3)))
    is_full = False
    send(session, media(said([6, *[None] * 9]), timestamp=300, track="outbound"))
    later = [message["type"] for message in follow().messages]
    send(session, STOP)

    assert [each["type"] for each in follower.messages].count("call.error") == 1
    assert later == ["call.started", "call.final"]
    finals = [each for each in follower.messages if each["type"] == "call.final"]
    assert {(each["text"], each["start"]) for each in finals} == {("w1", 0.0), ("w6", 0.3)}


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({}, "wrong_order"),
        ({"callSid": "C" * 101}, "invalid_value"),
        ({"customParameters": {"a": "b" * 16_000}}, "invalid_value"),
    ],
    ids=["another start", "long name", "long parameters"],
)
def test_a_start_is_bounded_and_comes_once(line, changed, code):
    """Its fields are kept for followers, and its name is in each message."""
    session, follow = line
    follower, of_all = follow(), follow("")
    if not changed:
        send(session, START)
    send(session, {**START, "start": {**START["start"], **changed}}, media(said([1])), STOP)

    (error,) = (each["error"] for each in of_all.messages if each["type"] == "call.error")
    assert error["code"] == code
    assert final_text(follower.messages) == ("" if changed else "w1")
    assert max(len(json.dumps(each)) for each in of_all.messages) < 500


def test_media_without_words_sends_followers_nothing(line, monkeypatch):
    """It comes fifty times a second, for each call."""
    session, follow = line
    follower, sends = follow(), []
    send(session, START)
    monkeypatch.setattr(follower.protocol, "info", attrs.evolve(follower.protocol.info, send=sends))
    send(session, media(said([None])))

    assert sends == []


def test_followers_that_left_are_forgotten_when_another_comes(line):
    """Although no call says anything meanwhile."""
    _, follow = line
    for _ in range(3):
        follow().audio.close()
    last = follow()

    assert last.protocol._calls._followers == [last.protocol]


def test_a_follower_needs_the_key_of_the_call(line):
    """Keys are of different customers."""
    session, follow = line
    other = follow("", key_id="1f2e3d4c")
    send(session, START, media(said([1])), STOP)

    assert other.messages == []


def test_a_client_secret_opens_nothing_of_a_call():
    """Whoever reads a page has one, and could speak in calls or listen to them."""
    assert not any(route.takes_secrets for route in addresses.routes())


def test_a_follower_only_reads(line):
    """What it sends is refused, and it is ended by a shutdown."""
    _, follow = line
    follower = follow()
    with pytest.raises(RequestError, match="expected no message"):
        follower.protocol.receive("{}")
    follower.protocol.end()

    assert follower.audio.is_over


def test_the_key_of_a_server_may_end_the_address():
    """Twilio can send it nowhere else."""
    from starlette.requests import HTTPConnection  # noqa: PLC0415

    scope = {"type": "websocket", "headers": [], "path_params": {"key": "secret"}}
    assert addresses.routes()[1].keys(HTTPConnection(scope)) == ["secret"]
