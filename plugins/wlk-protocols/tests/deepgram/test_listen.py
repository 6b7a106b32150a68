"""The protocol answers the messages of Deepgram's clients."""

from __future__ import annotations

import json
from types import SimpleNamespace

import attrs
from hypothesis import given, strategies
import pytest
from starlette.datastructures import Headers, QueryParams

from wlk_conformance.protocols import CARD, RULES, PlayedSession, SilentStream
from wlk_core.processor import StreamStats
from wlk_core.tokens import ASRToken, SpeakerSpan, Transcript
from wlk_live.session import (
    Commit,
    End,
    Endpoint,
    HypothesisChange,
    Marked,
    SpeakerTurn,
    SpeechStarted,
)
from wlk_protocols.deepgram.query import ListenQuery
from wlk_serve.protocols import Handshake, RequestError

from .client import AUDIO, CLIENTS, FLUX, LISTEN, client, final_text


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_every_protocol_is_kept(rule, client):
    """PRO rules, for both versions: docs/protocols.md."""
    assert RULES[rule][1](client) is None


SECOND = bytes(32_000)
WEBM = bytes.fromhex(  # how a browser's recording begins: 20 ms of silence in Opus
    "1a45dfa380 1853806701ffffffffffffff 1654ae6b01ffffffffffffff ae01ffffffffffffff"
    "d78101 8686415f4f505553 63a2934f707573486561640101000080bb0000000000"
    "1f43b67501ffffffffffffff e78100 a38781000080f8fffe"
)
FINALIZE, CLOSE = '{"type": "Finalize"}', '{"type": "CloseStream"}'


def open_session(query="", speaker_delay=None):
    """Return a session on a stream without events; without *speaker_delay*, it has no diarizer."""
    card = attrs.evolve(CARD, speaker_delay=speaker_delay)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wlk_conformance.protocols.CARD", card)
        return PlayedSession(client(LISTEN, query, final_text), SilentStream)


def query_of(query):
    """Return the parsed query of a client."""
    return ListenQuery.parse(QueryParams(f"{AUDIO}&{query}"), CARD)


def token(text, start=0.0, **fields):
    """Return a word of half a second."""
    return ASRToken(start, start + 0.5, f" {text}", **fields)


def transcripts(messages, *, is_final=True):
    """Return the transcripts of final results, or of interim ones."""
    return [
        message["channel"]["alternatives"][0]["transcript"]
        for message in messages
        if message["type"] == "Results" and message["is_final"] is is_final
    ]


END = End(audio_time=3.0, stats=StreamStats(), latency=None)


def test_the_last_words_of_an_utterance_come_with_speech_final():
    """Earlier words become final when the next ones are committed."""
    session = open_session()
    session.send(SECOND)

    messages = session.happen(
        Commit((token("zero"),), 1.0),
        Commit((token("One,", 0.5),), 1.5),
        Endpoint(1.2, "silence", 2),
    )

    assert transcripts(messages) == ["zero", "One,"]
    assert [message["speech_final"] for message in messages] == [False, True]
    (word,) = messages[1]["channel"]["alternatives"][0]["words"]
    assert (
        word["word"],
        word["punctuated_word"],
        word["start"],
        word["end"],
    ) == ("one", "One,", 0.5, 1.0)
    assert [(each["start"], each["duration"]) for each in messages] == [(0.0, 0.5), (0.5, 0.7)]


def test_interim_results_show_what_is_committed_and_what_may_change():
    """They are sent only if requested, and only when they change."""
    events = [
        Commit((token("zero", probability=0.5),), 1.0),
        HypothesisChange(Transcript((token("one", 0.5),)), 1.0),
        HypothesisChange(Transcript((token("one", 0.5),)), 1.5),
    ]
    session, other = open_session("interim_results=true"), open_session()
    session.send(SECOND)
    other.send(SECOND)

    assert transcripts(session.happen(*events), is_final=False) == ["zero", "zero one"]
    assert other.happen(*events) == []


def test_an_interim_result_covers_the_audio_that_was_decoded():
    """A client can be many seconds ahead of the model."""
    session = open_session("interim_results=true")
    session.send(SECOND * 10)
    results = session.happen(
        Commit((token("zero"),), 10.0),
        HypothesisChange(Transcript((token("one", 0.6),)), 10.0),
    )

    assert [(each["start"], each["duration"]) for each in results] == [(0.0, 0.5), (0.0, 1.1)]


def test_words_have_speakers_from_0_and_results_have_languages():
    """Speakers are included only if requested; a word without a speaker has no number."""
    words = (
        token("un", speaker="b", detected_language="fr"),
        token("two", 0.5, speaker=7, detected_language="en"),
        token("three", 1.0, detected_language="en"),
    )
    session, other = open_session("diarize=true"), open_session()
    found = []
    for each in (session, other):
        each.send(SECOND)
        (result,) = each.happen(Commit(words, 1.5), Endpoint(1.5, "silence", 2))
        found.append(result["channel"]["alternatives"][0])

    assert found[0]["languages"] == ["en", "fr"]
    assert found[1]["languages"] == ["en", "fr"]
    assert [word.get("speaker") for word in found[0]["words"]] == [0, 1, None]
    assert not any("speaker" in word for word in found[1]["words"])


@pytest.fixture
def diarized():
    """Return a session with a diarizer that takes up to a second longer than the words."""
    session = open_session("diarize=true", speaker_delay=1.0)
    session.send(SECOND)
    return session


def speakers(messages):
    """Return the words of final results, and their speakers."""
    return [
        (word["word"], word.get("speaker"))
        for message in messages
        for word in message["channel"]["alternatives"][0]["words"]
        if message["is_final"]
    ]


def turn(speaker, start, end):
    """Return the event of a speaker turn."""
    return SpeakerTurn(SpeakerSpan(speaker, start, end), end + 1.0)


def test_final_results_wait_for_the_speakers_that_a_diarizer_finds(diarized):
    """Speakers come after the words; events after those words wait, too."""
    assert diarized.happen(Commit((token("zero"),), 1.0), Commit((token("one", 0.5),), 1.5)) == []
    assert diarized.happen(Endpoint(1.1, "silence", 1.5), Commit((token("two", 1.5),), 2.5)) == []
    messages = diarized.happen(turn("b", 0.0, 0.5), turn("a", 0.5, 1.0))

    assert speakers(messages) == [("zero", 0), ("one", 1)]
    assert [message["speech_final"] for message in messages] == [True]
    last = [Commit((token("three", 2.0),), 3.0), Endpoint(2.5, "end", 3.0), END]
    messages = diarized.happen(turn("b", 1.5, 2.0), *last)
    assert speakers(messages) == [("two", 0), ("three", None)]


def test_a_finalize_waits_for_no_speaker(diarized):
    """Its answer is sent immediately; words whose speaker is still unknown have none."""
    diarized.happen(Commit((token("zero"),), 1.0), Endpoint(0.6, "silence", 1.0))
    diarized.send(FINALIZE)
    messages = diarized.happen(Endpoint(1.0, "commit", 1.0))

    assert speakers(messages) == [("zero", None)]
    assert [message["from_finalize"] for message in messages] == [False, True]


def test_words_of_nobody_wait_as_long_as_a_speaker_may_take(diarized):
    """A mark tells how much audio has been decoded."""
    diarized.happen(Commit((token("zero"),), 1.0), Endpoint(0.6, "silence", 1.0))
    diarized.send(SECOND)
    ((_, name),) = [call for call in diarized.streams[0].calls if call[0] == "mark"]
    marked = Marked(
        name=name,
        transcript=Transcript(()),
        processed_up_to=2.0,
        stable_up_to=2.0,
        stats=StreamStats(),
        audio_time=2.0,
    )

    assert speakers(diarized.happen(marked)) == [("zero", None)]


def test_a_close_brings_the_last_words_and_then_the_metadata():
    """An empty message closes the stream as well."""
    for end in (CLOSE, b""):
        session = open_session()
        session.send(SECOND, end)
        *_, words, metadata = session.happen(Commit((token("zero"),), 1.0), END)

        assert words["channel"]["alternatives"][0]["transcript"] == "zero"
        assert (metadata["type"], metadata["duration"]) == ("Metadata", 1.0)
        assert session.audio.is_over


def test_a_close_without_audio_brings_the_metadata_at_once():
    """A shutdown afterwards sends no second one."""
    session = open_session()

    assert [message["type"] for message in session.send(CLOSE)] == ["Metadata"]
    assert session.protocol.end() == []


def mark(time, *hypothesis, passed=None):
    """Return the answer to a mark, by which the gate has passed *passed* seconds to the model."""
    passed = time if passed is None else passed
    return Marked(
        name=str(time),
        transcript=Transcript(hypothesis),
        processed_up_to=passed,
        stable_up_to=0.0,
        stats=StreamStats(audio_seconds=passed),
        audio_time=time,
    )


def marks(session):
    """Return the times of the marks that were requested."""
    return [float(call[1]) for call in session.streams[0].calls if call[0] == "mark"]


def test_speech_and_the_end_of_an_utterance_are_reported_by_the_clock_of_the_decoded_audio():
    """UtteranceEnd is sent once, when no word has followed for `utterance_end_ms`."""
    session = open_session("vad_events=true&utterance_end_ms=1000")
    session.send(SECOND)
    messages = session.happen(
        SpeechStarted(0.1, 0.5), Commit((token("zero"),), 1.0), Endpoint(0.6, "silence", 1.0)
    )
    later = [*session.send('{"type": "KeepAlive"}'), *session.send(SECOND), *session.send(SECOND)]
    ends = session.happen(mark(2.0, passed=0.8), mark(3.0, passed=0.8))

    assert messages[0] == {"type": "SpeechStarted", "channel": [0], "timestamp": 0.1}
    assert later == []
    assert marks(session) == [2.0, 3.0]
    assert ends == [{"type": "UtteranceEnd", "channel": [0, 1], "last_word_end": 0.5}]


def ends_of_utterances(messages):
    """Return the type of each message, and the transcript or the end of the last word."""
    return [
        (m["type"], m["last_word_end"] if m["type"] == "UtteranceEnd" else transcripts([m]))
        for m in messages
    ]


@pytest.mark.parametrize("query", ["endpointing=false", "endpointing=3000"])
def test_an_utterance_ends_without_an_endpoint(query):
    """The gap between words counts; the words before it are final first."""
    session = open_session(f"{query}&utterance_end_ms=1000")
    session.send(SECOND, SECOND, SECOND)
    speech = session.happen(Commit((token("zero"),), 1.0), mark(1.5))
    silence = session.happen(mark(1.75, passed=1.5))

    assert speech == []  # the model may not have recognised the last half second yet
    assert ends_of_utterances(silence) == [("Results", ["zero"]), ("UtteranceEnd", 0.5)]


def test_noise_without_words_ends_an_utterance():
    """The gate takes it for speech, and the model finds no word in it."""
    session = open_session("utterance_end_ms=1000")
    session.send(SECOND, SECOND, SECOND)
    session.happen(Commit((token("zero"),), 1.0))

    assert session.happen(mark(1.75), mark(1.99)) == []
    assert [m["type"] for m in session.happen(mark(2.25))] == ["Results", "UtteranceEnd"]


def test_words_that_may_change_do_not_end_an_utterance():
    """UtteranceEnd comes after the final result with the last word."""
    session = open_session("utterance_end_ms=1000")
    session.send(SECOND, SECOND, SECOND)
    session.happen(Commit((token("zero"),), 1.0))

    assert session.happen(mark(2.5, token("one", 0.6)), mark(3.0, token("one", 0.6))) == []


@pytest.mark.parametrize(
    ("wait", "found"),
    [
        (1000, [("Results", ["zero"]), ("UtteranceEnd", 5.5), ("Results", ["one"])]),
        (3000, [("Results", ["zero"]), ("Results", ["one"])]),
    ],
)
def test_a_client_that_is_faster_than_the_model_has_the_utterances_of_the_audio(wait, found):
    """Ten seconds are received when the pause of 1.5 s between two words is decoded."""
    session = open_session(f"utterance_end_ms={wait}")
    session.send(SECOND * 10)
    messages = session.happen(
        Commit((token("zero", 5.0),), 10.0), Endpoint(6.4, "silence", 10.0), mark(6.5, passed=6.0)
    )
    messages += session.send(SECOND)
    messages += session.happen(
        SpeechStarted(6.9, 11.0), Commit((token("one", 7.0),), 11.0), Endpoint(8, "silence", 11)
    )

    assert ends_of_utterances(messages) == found


def test_a_gap_within_a_commit_ends_an_utterance():
    """A slow model commits the words of several utterances at once."""
    session = open_session("utterance_end_ms=1000")
    session.send(SECOND)
    tokens = token("zero"), token("one", 0.5), token("two", 3.0)
    messages = session.happen(Commit(tokens, 4.0), Endpoint(4.0, "silence", 4.0))

    assert ends_of_utterances(messages) == [
        ("Results", ["zero one"]),
        ("UtteranceEnd", 1.0),
        ("Results", ["two"]),
    ]


def test_the_end_of_an_utterance_waits_for_its_speakers():
    """Its words become final before it, with their speakers."""
    session = open_session("diarize=true&utterance_end_ms=1000", speaker_delay=2.5)
    session.send(SECOND, SECOND)
    session.happen(Commit((token("zero"),), 1.0))
    before = session.happen(mark(1.75, passed=1.5), mark(2.0, passed=1.5))
    messages = session.happen(turn("a", 0.0, 0.5))

    assert before == []
    assert speakers(messages[:1]) == [("zero", 0)]
    assert [message["type"] for message in messages] == ["Results", "UtteranceEnd"]


def test_settings_cannot_change_within_a_connection():
    """Clients read a `ConfigureFailure`; an `Error` would end some of them."""
    (failure,) = open_session().send('{"type": "Configure", "keyterms": ["wlk"]}')

    assert (failure["type"], failure["code"]) == (
        "ConfigureFailure",
        "CONFIGURE_KEYTERMS_NOT_SUPPORTED",
    )


def test_fields_that_are_ignored_are_named_in_the_metadata():
    """Those that models fulfil anyway are not, nor those that ask for nothing."""
    session = open_session("numerals=true&redact=pci&punctuate=true&profanity_filter=false")
    (metadata,) = session.send(CLOSE)

    assert [each["parameter"] for each in metadata["warnings"]] == ["numerals", "redact"]


@pytest.mark.parametrize(
    ("query", "fields", "names"),
    [
        ("diarize=true", {}, ("diarize",)),
        ("diarize=true", {"speaker_delay": 1.0}, ()),
        ("keyterm=wlk&keywords=a", {}, ()),
        (
            "keyterm=wlk&keywords=a",
            {"spec": attrs.evolve(CARD.spec, options=())},
            ("keyterm", "keywords"),
        ),
        ("detect_language=true&utterances=true", {}, ("detect_language", "utterances")),
        (
            "language=en-US",
            {"spec": attrs.evolve(CARD.spec, languages=(), capabilities=())},
            ("language",),
        ),
    ],
)
def test_a_field_that_this_server_or_this_address_does_not_have_is_ignored(query, fields, names):
    """Without a diarizer there are no speakers, and not every model takes keyterms."""
    found = ListenQuery.parse(QueryParams(f"{AUDIO}&{query}"), attrs.evolve(CARD, **fields))

    assert found.ignored == names


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"type": "\\ud800"}', "\0", "[" * 100_000])
def test_a_wrong_message_is_an_error_and_the_session_goes_on(text):
    """The error has Deepgram's fields."""
    session = open_session()
    (error,) = session.send(text)

    assert (error["type"], error["variant"]) == ("Error", "INVALID_MESSAGE")
    assert not session.audio.is_over


@pytest.mark.parametrize(
    "query",
    [
        "encoding=opus&sample_rate=48000",
        "encoding=linear16",
        "encoding=linear16&sample_rate=1",
        "encoding=linear16&sample_rate=16000&channels=17",
        "channels=2&multichannel=true",  # WebM, which is decoded to one channel
        "encoding=linear16&sample_rate=16000&interim_results=perhaps",
        "encoding=linear16&sample_rate=16000&utterance_end_ms=1",
    ],
)
def test_a_wrong_field_is_refused_before_the_session(query):
    """The message names the field."""
    with pytest.raises(
        RequestError, match=r"expected (encoding|sample_rate|channels|interim|utter)"
    ):
        ListenQuery.parse(QueryParams(query), CARD)


def test_a_query_chooses_language_keyterms_and_pauses():
    """Keywords lose their boost, and endpointing is never shorter than pauses within words."""
    query = query_of("language=en-US&keyterm=wlk&keywords=Silero:2&endpointing=25")
    gate = query.options.gate

    assert (query.options.language, query.options.keyterms) == ("en", "wlk, Silero")
    assert gate.silence_seconds == pytest.approx(0.3)
    assert not query_of("endpointing=false").ends_speech
    assert query_of("endpointing=false").options.gate is None


@pytest.mark.parametrize("query", ["", "endpointing=true"])
def test_speech_ends_after_half_a_second_by_default(query):
    """Both the field and its absence leave the time to the server."""
    assert query_of(query).options.gate.silence_seconds == pytest.approx(0.5)


@pytest.mark.parametrize("language", ["multi", "auto", "AUTO"])
def test_a_language_can_be_detected(language):
    """Deepgram says `multi`, and most others `auto`."""
    assert query_of(f"language={language}").options.language is None


@pytest.mark.parametrize(
    "query",
    ["&".join(["keyterm=a"] * 501), f"keyterm={10_001 * 'a'}", "&".join(["keywords=a"] * 501)],
)
def test_more_keyterms_than_an_engine_can_use_are_refused(query):
    """They would be encoded for each window of the audio."""
    with pytest.raises(RequestError, match="expected keyterm as at most 500 terms"):
        query_of(query)


@pytest.mark.parametrize("text", ["language=€", "channels=2\r\nx: y", "multichannel=ü"])
@pytest.mark.parametrize("route", [LISTEN, FLUX], ids=["listen", "flux"])
def test_a_refusal_has_a_header_of_printable_ascii(route, text):
    """The message quotes what the client sent, and other characters would break the response."""
    with pytest.raises(RequestError) as refusal:
        PlayedSession(client(route, text, final_text))
    response = route.refuse(refusal.value)

    assert response.status_code == 400
    assert response.headers["dg-error"].isascii()
    assert response.headers["dg-error"].isprintable()


@pytest.mark.parametrize(
    ("offered", "keys", "chosen"),
    [
        (["token", "secret"], ["secret"], "token"),
        (["bearer", "secret"], ["secret"], "bearer"),
        (["Bearer", "secret"], ["secret"], "Bearer"),
        (["captions"], [], "captions"),
        ([], [], None),
    ],
)
@pytest.mark.parametrize("route", [LISTEN, FLUX], ids=["listen", "flux"])
def test_a_subprotocol_is_accepted_and_may_carry_a_key(route, offered, keys, chosen):
    """Browsers fail a connection that accepts none of the offered ones."""
    connection = SimpleNamespace(headers={}, scope={"subprotocols": offered})
    handshake = Handshake(
        headers=Headers({}),
        query=QueryParams(AUDIO),
        subprotocols=offered,
        secret=None,
        card=lambda _name: CARD,
    )

    assert route.keys(connection) == keys
    assert route.open(handshake).subprotocol == chosen


@pytest.mark.parametrize("route", [LISTEN, FLUX])
def test_audio_without_an_encoding_is_webm(route):
    """Browsers send it like this; anything else ends the audio with an error."""
    unnamed = attrs.evolve(client(route, "", final_text), query="")
    session = PlayedSession(unnamed, SilentStream)

    assert session.send(WEBM) == []
    assert session.audio.samples == 304  # the resampler keeps the last millisecond
    (error,) = session.send(bytes(40))
    assert "WebM" in error["description"]
    assert session.audio.is_ended


@pytest.mark.parametrize("route", [LISTEN, FLUX])
def test_samples_without_an_encoding_are_refused_with_the_fields_they_need(route):
    """They may be what the client meant to send."""
    unnamed = attrs.evolve(client(route, "", final_text), query="")
    error, *_ = PlayedSession(unnamed, SilentStream).send(bytes(40))

    assert "or samples with `encoding` and `sample_rate` in the query" in error["description"]


ACTIONS = strategies.sampled_from([SECOND, FINALIZE, "word", "silence", "commit", "turn"])


@given(
    strategies.lists(ACTIONS),
    strategies.sampled_from(["", "&interim_results=true"]),
    strategies.sampled_from([None, 1.0]),
)
def test_any_order_loses_and_doubles_no_word_and_no_time(actions, interims, speaker_delay):
    """Final results, joined, are the text; they are contiguous and answer every Finalize once."""
    session = open_session(f"diarize=true{interims}", speaker_delay)
    words, messages, clock = 0, [], 0.0
    for action in actions:
        if isinstance(action, str) and action != FINALIZE and not session.audio.segments:
            continue
        if action == "word":
            messages += session.happen(Commit((token(str(words), clock),), clock + 0.5))
            words, clock = words + 1, clock + 0.5
        elif action == "silence":
            messages += session.happen(Endpoint(clock, "silence", clock))
        elif action == "turn":
            messages += session.happen(turn(words, max(0.0, clock - 0.5), clock))
        elif action == "commit" and session.audio.segment.commits:
            messages += session.happen(Endpoint(clock, "commit", clock))
        elif action != "commit":
            messages += session.send(action)
    messages += session.send(CLOSE)
    if session.audio.segments:
        messages += session.happen(Endpoint(clock, "end", clock), END)

    finals = [m for m in messages if m["type"] == "Results" and m["is_final"]]
    assert " ".join(transcripts(messages)).split() == [str(number) for number in range(words)]
    assert sum(message["from_finalize"] for message in finals) == actions.count(FINALIZE)
    ends = [0.0, *(message["start"] + message["duration"] for message in finals)]
    assert [message["start"] for message in finals] == pytest.approx(ends[:-1])
    assert [m["type"] for m in messages if m["type"] == "Metadata"] == ["Metadata"]
    assert json.loads(json.dumps(messages)) == messages
