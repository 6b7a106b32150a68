"""The protocol answers the messages of WhisperLiveKit's clients."""

from __future__ import annotations

from types import SimpleNamespace

import attrs
from hypothesis import given, strategies
import pytest
from starlette.datastructures import QueryParams

from wlk_conformance.protocols import RULES, Client, PlayedSession, SilentStream
from wlk_core.processor import StreamStats
from wlk_core.tokens import ASRToken, Silence, SpeakerSpan, Transcript
from wlk_live.session import Commit, End, Endpoint, HypothesisChange, Lag, SilenceSpan, SpeakerTurn
from wlk_protocols.asr.routes import routes
from wlk_serve.protocols import RequestError


def text(messages):
    """Return the text of the last state in mode "full"."""
    states = [message for message in messages if "lines" in message]
    return " ".join(line["text"] for state in states[-1:] for line in state["lines"])


CLIENT = Client(route=routes()[0], audio=lambda part: [part], end=[b""], part_bytes=1, text=text)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_every_protocol_is_kept(rule):
    """PRO rules: docs/protocols.md."""
    assert RULES[rule][1](CLIENT) is None


SECOND = bytes(32_000)
WEBM = bytes.fromhex(  # how a browser's recording begins: 20 ms of silence in Opus
    "1a45dfa380 1853806701ffffffffffffff 1654ae6b01ffffffffffffff ae01ffffffffffffff"
    "d78101 8686415f4f505553 63a2934f707573486561640101000080bb0000000000"
    "1f43b67501ffffffffffffff e78100 a38781000080f8fffe"
)
END = End(audio_time=9.0, stats=StreamStats(), latency=None)
(ROUTE,) = routes()


def open_session(*, is_diff=False):
    """Return a session of a client, on a stream without events."""
    client = attrs.evolve(CLIENT, query="mode=diff" if is_diff else "")
    return PlayedSession(client, SilentStream)


@pytest.fixture
def client():
    """Return a client that has sent a second of audio."""
    client = open_session()
    client.send(SECOND)
    return client


def commit(text, start=0.0, **fields):
    """Return the event of a committed word of half a second."""
    return Commit((ASRToken(start, start + 0.5, f" {text}", **fields),), start + 1)


def texts(message):
    """Return the speaker and text of each line."""
    return [(line["speaker"], line["text"]) for line in message["lines"]]


def test_the_first_message_asks_for_samples(client):
    """In response, the page records with an AudioWorklet."""
    assert client.protocol.begin() == [{"type": "config", "useAudioWorklet": True, "mode": "full"}]


def test_a_state_has_lines_pauses_and_the_text_that_may_change(client):
    """Words of one speaker form one line until a pause; times are formatted as on the page."""
    messages = client.happen(
        HypothesisChange(Transcript((ASRToken(0.0, 0.5, " zero"),)), 0.6),
        HypothesisChange(Transcript(()), 0.7),
        commit("zero", detected_language="en"),
        commit("one", 0.5),
        Endpoint(1.0, "silence", 2.0),
        SilenceSpan(Silence(1.0, 3600.0), 3600.5),
        commit("two", 3600.0),
    )
    first, last = messages[0], messages[-1]

    assert (first["buffer_transcription"], first["lines"]) == (" zero", [])
    assert texts(last) == [(1, "zero one"), (-2, ""), (1, "two")]
    assert [line["start"] for line in last["lines"]] == ["0:00:00.00", "0:00:01.00", "1:00:00.00"]
    assert last["lines"][0]["detected_language"] == "en"
    assert "type" not in last


def test_speakers_have_numbers_in_their_order_and_may_come_late(client):
    """The protocol has numbers instead of the names of speakers."""
    client.happen(commit("zero"), commit("one", 2.0))
    client.happen(SpeakerTurn(SpeakerSpan("anna", 0.0, 1.0), 3.0))
    (last,) = client.happen(SpeakerTurn(SpeakerSpan("ben", 1.5, 3.0), 3.0))

    assert texts(last) == [(1, "zero"), (2, "one")]


def test_a_change_that_nobody_sees_sends_nothing(client):
    """A change of the lag is visible."""
    client.happen(commit("zero"))

    assert client.happen(Endpoint(1.0, "commit", 1.0)) == []
    assert client.happen(Lag(3.25, 2.0))[0]["remaining_time_transcription"] == 3.25


def test_a_state_has_at_most_the_lines_that_the_page_shows(client):
    """Otherwise, messages would grow without bound."""
    for number in range(250):
        time = 2.0 * number
        messages = client.happen(
            commit(str(number), time),
            Endpoint(time + 0.5, "silence", time + 2),
            SilenceSpan(Silence(time + 0.5, time + 2), time + 2),
        )

    assert len(messages[-1]["lines"]) == 200
    assert texts(messages[-1])[-2:] == [(1, "249"), (-2, "")]

    client.send(b"")
    *_, last, _ = client.happen(END)
    assert [text for _, text in texts(last) if text] == [str(number) for number in range(250)]


@pytest.mark.parametrize(("mode", "expected"), [("full", 300), ("diff", 0)])
def test_a_session_of_any_length_keeps_a_bounded_number_of_lines(monkeypatch, mode, expected):
    """The last state of mode "full" has the newest of them; mode "diff" keeps no older lines."""
    monkeypatch.setattr("wlk_protocols.asr.protocol._MAX_OLDER_LINES", 300)
    client = open_session(is_diff=mode == "diff")
    client.send(SECOND)
    counts = set()
    for number in range(1200):
        client.happen(commit(str(number), float(number)), Endpoint(number + 0.5, "silence", 0.0))
        counts.add(len(client.protocol._dropped))
    client.send(b"")
    messages = client.happen(END)

    assert max(counts) == expected
    if mode == "full":
        assert texts(messages[-2]) == [(1, str(number)) for number in range(700, 1200)]


@pytest.mark.parametrize("is_diff", [False, True], ids=["full", "diff"])
def test_a_word_is_not_shown_twice_while_it_is_committed(is_diff):
    """Only after the commit comes a hypothesis without the word."""
    client = open_session(is_diff=is_diff)
    client.send(SECOND)
    zero, one = ASRToken(0.0, 0.5, " zero"), ASRToken(0.5, 0.9, " one")
    client.happen(HypothesisChange(Transcript((zero, one)), 1.0))
    (state,) = client.happen(Commit((zero,), 1.0), HypothesisChange(Transcript((one,)), 1.0))

    assert state["buffer_transcription"] == " one"
    assert [line["text"] for line in state.get("new_lines") or state["lines"]] == ["zero"]


def test_an_error_keeps_the_lines_and_is_shown_once(client):
    """The page would take an error without lines for an empty state, and clear its text."""
    client.happen(commit("zero"))
    (limit,) = client.protocol.refuse(RequestError("the session is over"))
    (state,) = client.happen(commit("one", 0.5))

    assert (
        limit["status"],
        texts(limit),
        limit["error"],
    ) == ("error", [(1, "zero")], "the session is over")
    assert (state["status"], texts(state)) == ("active_transcription", [(1, "zero one")])


def test_only_an_end_of_the_client_is_ready_to_stop(client):
    """After a shutdown, clients reconnect; their transcript is not complete."""
    assert client.protocol.end() == []
    messages = client.happen(commit("zero"), END)

    assert {"type": "ready_to_stop"} not in messages


def test_an_empty_message_brings_the_last_words_and_then_the_end(client):
    """Clients then close the socket."""
    assert client.send(b"") == []
    *_, state, ready = client.happen(commit("zero"), END)

    assert texts(state) == [(1, "zero")]
    assert ready == {"type": "ready_to_stop"}
    assert client.audio.is_over


def test_no_audio_is_ready_to_stop_at_once():
    """It is sent only once."""
    client = open_session()

    assert client.send(b"") == [{"type": "ready_to_stop"}]
    assert [*client.send(b""), *client.protocol.end()] == []


def test_webm_of_a_browser_is_decoded():
    """Some clients record with a MediaRecorder, whatever the configuration asks for."""
    client = open_session()

    assert client.send(WEBM[:30], WEBM[30:]) == []
    assert client.audio.samples == 304  # the resampler keeps the last millisecond


def test_webm_is_recognised_in_pieces_of_a_byte():
    """Proxies and browsers may cut the recording anywhere."""
    client = open_session()

    assert client.send(*(WEBM[start : start + 1] for start in range(len(WEBM)))) == []
    assert client.audio.samples == 304


@pytest.mark.parametrize("size", [1, 2, 3])
def test_samples_that_may_begin_a_container_are_samples_if_nothing_follows(size):
    """They are held back until the format is certain, or the audio ends."""
    client = open_session()
    before = [*client.send(WEBM[:size]), client.audio.seconds]
    client.send(b"")

    assert before == [0.0]
    assert client.audio.samples == size // 2


BLOCK = WEBM[-9:]  # 20 ms


@pytest.mark.parametrize(
    "message", [BLOCK * 300, b"\xec\x80" * 10_000], ids=["packets", "void elements"]
)
def test_a_message_of_many_elements_is_decoded_in_many_turns(message):
    """What decoding costs does not follow from the size of a message."""
    client = open_session()
    client.send(WEBM)
    client.protocol.receive(message)
    taken = []
    while client.audio.is_waiting:
        before = client.audio.samples
        client.audio.proceed()
        taken.append(client.audio.samples - before)

    assert len(taken) >= 9
    assert max(taken) <= 32 * 320


@pytest.mark.parametrize("data", [WEBM[:5] + bytes(20), b"RIFF....WAVE", b"\0\0\0\x1cftypmp42"])
def test_another_container_is_refused_with_what_was_expected(data):
    """WAV, MP4 and WebM are not mistaken for samples, which would be noise."""
    client = open_session()
    messages = client.send(data)
    if client.audio.segments:  # the damage comes after the beginning of WebM
        messages += client.happen(END)
    error, *_, ready = messages

    assert "expected " in error["error"]
    assert ready["type"] == "ready_to_stop"
    assert client.audio.samples == 0


WORDS = strategies.lists(strategies.sampled_from(["word", "pause", "anna", "ben"]), max_size=300)


@given(WORDS)
def test_diffs_build_the_states_of_the_full_mode(actions):
    """Diffs drop, keep and append lines, and are numbered."""
    clients = open_session(), open_session(is_diff=True)
    time, lines, count = 0.0, [], 0
    for client in clients:
        client.send(SECOND)
    for number, action in enumerate(actions):
        event = {
            "word": lambda: commit(str(number), time),  # noqa: B023 -- called in this iteration
            "pause": lambda: SilenceSpan(Silence(time, time + 1), time + 1),  # noqa: B023
        }.get(action, lambda: SpeakerTurn(SpeakerSpan(action, time - 1, time), time))()  # noqa: B023
        full, diffs = (client.happen(event) for client in clients)
        time += 1.0
        for state, diff in zip(full, diffs, strict=True):
            count += 1
            assert diff["seq"] == count
            if diff["type"] == "snapshot":
                lines = diff["lines"]
            else:
                lines = lines[diff.get("lines_pruned", 0) :]
                new = diff.get("new_lines", [])
                lines = [*lines[: diff["n_lines"] - len(new)], *new]
            assert state["lines"] == lines
            assert {
                name: value
                for name, value in {**diff, "lines": 0}.items()
                if name not in {"type", "seq", "n_lines", "lines_pruned", "new_lines"}
            } == {**state, "lines": 0}


def handshake(query, translates_to=None):
    """Return the handshake of a client."""
    codes = {"": None, "fr": "fr"}
    card = SimpleNamespace(
        language="en", check_language=codes.__getitem__, translates_to=translates_to
    )
    return SimpleNamespace(
        query=QueryParams(query), subprotocols=["captions"], card=lambda _name: card
    )


def test_a_query_chooses_language_and_mode():
    """By default, they are those of the server."""
    assert ROUTE.open(handshake("language=fr&mode=diff")).options.language == "fr"
    assert ROUTE.open(handshake("target_language=")).options.language == "en"
    assert ROUTE.open(handshake("language=auto")).options.language is None


def test_the_first_subprotocol_that_is_offered_is_accepted():
    """Browsers fail a connection that accepts none of the offered ones."""
    assert ROUTE.open(handshake("")).subprotocol == "captions"


def test_a_server_that_translates_does_so_for_every_client():
    """Clients can request its target language or none."""
    assert ROUTE.open(handshake("target_language=DE", "de")).options.translates
    assert ROUTE.open(handshake("", "de")).options.translates
    assert not ROUTE.open(handshake("")).options.translates
    with pytest.raises(RequestError, match="expected target_language=de or none"):
        ROUTE.open(handshake("target_language=fr", "de"))


@pytest.mark.parametrize("query", ["mode=other", "target_language=de"])
def test_wrong_settings_are_refused_with_a_message(query):
    """The close code is that of WhisperLiveKit."""
    with pytest.raises(RequestError) as refusal:
        ROUTE.open(handshake(query))

    answer = ROUTE.refuse(refusal.value)
    assert (answer.code, answer.message["type"]) == (4400, "error")


def test_a_wrong_key_is_refused_before_the_socket_is_accepted():
    """The key can be in the query."""
    connection = SimpleNamespace(headers={}, query_params=QueryParams("token=secret"))

    assert ROUTE.keys(connection) == ["secret"]
    answer = ROUTE.refuse(RequestError("wrong", status=401))
    assert (answer.code, answer.message) == (4401, None)


def test_a_full_server_opens_no_socket():
    """The page resets its back-off whenever a socket opens."""
    assert ROUTE.refuse(RequestError("full", status=503)).status_code == 503
