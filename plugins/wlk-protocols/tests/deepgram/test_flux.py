"""Turns have the events, and their order, that Deepgram documents."""

from __future__ import annotations

from itertools import chain
import json
import math

import attrs
from hypothesis import given, strategies
import pytest
from starlette.datastructures import QueryParams

from wlk_conformance.protocols import CARD, PlayedSession, SilentStream
from wlk_core.processor import StreamStats
from wlk_core.tokens import ASRToken, Transcript
from wlk_live.session import Commit, Endpoint, HypothesisChange, Marked
from wlk_protocols.deepgram.query import FluxQuery
from wlk_serve.protocols import RequestError

from .client import AUDIO, FLUX, client, turns_text

QUARTER = bytes(8_000)  # of a second
FORCE, CLOSE = '{"type": "ForceEndTurn"}', '{"type": "CloseStream"}'


def query_of(query=""):
    """Return the parsed query of a client."""
    return FluxQuery.parse(QueryParams(f"{AUDIO}&{query}"), CARD)


def open_session(query="eager_eot_threshold=0.5"):
    """Return a session of a client, on a stream without events."""
    return PlayedSession(client(FLUX, query, turns_text), SilentStream)


def token(text, end):
    """Return a word that ends at *end*."""
    return ASRToken(max(0.0, end - 0.25), end, f" {text}")


def mark(now, *hypothesis, passed=None, processed=None):
    """Return the answer to a mark, by which the gate has passed *passed* seconds to the model."""
    return Marked(
        name=str(now),
        transcript=Transcript(hypothesis),
        processed_up_to=now if processed is None else processed,
        stable_up_to=now,
        stats=StreamStats(audio_seconds=now if passed is None else passed),
        audio_time=now,
    )


def events(messages):
    """Return the event and transcript of each message about a turn."""
    return [(m["event"], m["transcript"]) for m in messages if m["type"] == "TurnInfo"]


def test_a_turn_starts_is_updated_ends_eagerly_and_ends():
    """The end has the transcript of the eager end; then the next turn follows."""
    session = open_session()
    session.send(QUARTER)
    messages = session.happen(
        HypothesisChange(Transcript((token("zero", 0.5),)), 0.6),
        mark(0.6),
        Commit((token("zero", 0.5),), 0.8),
        mark(0.8, passed=0.7),
        mark(1.0, passed=0.7),
        Endpoint(0.5, "silence", 1.3),
    )

    assert events(messages) == [
        ("StartOfTurn", "zero"),
        ("Update", "zero"),
        ("Update", "zero"),
        ("EagerEndOfTurn", "zero"),
        ("EndOfTurn", "zero"),
    ]
    assert (messages[-1]["trigger"], messages[-1]["turn_index"]) == ("model", 0)
    assert 0.5 <= messages[-2]["end_of_turn_confidence"] < messages[-1]["end_of_turn_confidence"]
    assert session.happen(Commit((token("one", 2.0),), 2.0))[0]["turn_index"] == 1


@pytest.mark.parametrize(
    ("passed", "names"),
    [
        ([0.75, 1.0, 1.25], ["Update", "Update", "Update"]),
        ([0.75, 0.775, 0.775], ["Update", "Update", "EagerEndOfTurn"]),
    ],
    ids=["speech", "silence"],
)
def test_a_turn_ends_eagerly_when_nobody_speaks(passed, names):
    """If the model has found no word for half a second, it can just be slow."""
    session = open_session("eager_eot_threshold=0.62")
    session.send(QUARTER)
    marks = [mark(0.75 + 0.25 * number, passed=each) for number, each in enumerate(passed)]
    messages = session.happen(Commit((token("zero", 0.5),), 0.8), *marks)

    assert [name for name, _ in events(messages)[1:]] == names


@pytest.mark.parametrize(
    ("processed", "names"),
    [
        ([0.5, 0.6], ["Update", "EagerEndOfTurn"]),
        ([0.5, 0.5, 0.5], ["Update", "Update", "EagerEndOfTurn"]),
    ],
    ids=["decoded in the quiet", "not decoded before the end"],
)
def test_a_turn_ends_eagerly_when_all_of_its_speech_is_decoded(processed, names):
    """A word that is still to be decoded would resume it; some models wait until the end."""
    session = open_session("eager_eot_threshold=0.3&eot_threshold=0.8")
    session.send(QUARTER)
    marks = [
        mark(1.0 + 0.25 * number, passed=0.6, processed=each)
        for number, each in enumerate(processed)
    ]
    messages = session.happen(Commit((token("zero", 0.5),), 0.8), mark(0.6, processed=0.5), *marks)

    assert [name for name, _ in events(messages)[2:]] == names


def test_without_a_threshold_no_turn_ends_eagerly():
    """EagerEndOfTurn is sent only if the client sets eager_eot_threshold, as at Deepgram."""
    session = open_session("")
    session.send(QUARTER)
    session.happen(Commit((token("zero", 0.5),), 0.8), *(mark(number) for number in range(1, 9)))

    assert "EagerEndOfTurn" not in dict(events(session.messages))


def test_a_mark_is_requested_for_every_quarter_of_a_second():
    """The sizes of the client's messages make no difference."""
    session = open_session()
    for start in range(0, 32_000, 320):
        session.send(bytes(32_000)[start : start + 320])

    calls = session.streams[0].calls
    assert [name for call, name in calls if call == "mark"] == ["0.25", "0.5", "0.75", "1.0"]


def test_a_turn_can_be_forced_to_end():
    """Without a turn, nothing is sent."""
    session = open_session()
    session.send(FORCE, QUARTER, FORCE)
    messages = session.happen(Commit((token("zero", 0.5),), 0.5), Endpoint(0.5, "commit", 0.5))
    session.send(FORCE)
    nothing = session.happen(Endpoint(0.5, "commit", 0.5))

    assert messages[-1]["trigger"] == "manual"
    assert nothing == []


@pytest.mark.parametrize(
    ("query", "seconds", "eager", "trigger"),
    [
        ("", 0.8167, math.inf, "model"),
        ("eot_threshold=0.5&eager_eot_threshold=0.3", 0.35, 0.15, "model"),
        ("eot_threshold=1.0&eot_timeout_ms=1000", 1.0, math.inf, "timeout"),
    ],
)
def test_thresholds_are_lengths_of_silence(query, seconds, eager, trigger):
    """The gate ends speech after the silence that ends a turn."""
    found = query_of(query)
    gate = found.options.gate

    assert (found.end_seconds, found.eager_seconds) == pytest.approx((seconds, eager), abs=1e-4)
    assert gate.silence_seconds == pytest.approx(seconds, abs=1e-4)
    assert found.trigger == trigger


@pytest.mark.parametrize(
    "query", ["eot_threshold=0.1", "eager_eot_threshold=nan", "eot_timeout_ms=1", "eot_threshold=a"]
)
def test_a_wrong_threshold_is_refused(query):
    """The message names the threshold."""
    with pytest.raises(RequestError, match="expected e"):
        query_of(query)


def configure(**fields):
    """Return a Configure message."""
    return json.dumps({"type": "Configure", **fields})


def test_other_settings_hold_from_the_next_turn():
    """The current turn keeps its settings; unnamed ones do not change, and null is the default."""
    session = open_session("eager_eot_threshold=0.5&keyterm=wlk&eot_timeout_ms=")
    session.send(QUARTER)
    session.happen(Commit((token("zero", 0.5),), 0.5))
    change = configure(thresholds={"eot_threshold": 0.9, "eager_eot_threshold": None})
    (answer,) = session.send(change)
    before = session.audio.options
    session.happen(Endpoint(0.5, "silence", 1.3))
    (other,) = session.send(configure(keyterms=["Silero", "gate"], language_hints="en"))
    session.send(*[QUARTER] * 4)
    session.happen(mark(1.0, passed=0.75), mark(1.25, passed=0.75))

    assert answer["type"] == "ConfigureSuccess"
    assert other["type"] == "ConfigureSuccess"
    thresholds = {"eot_threshold": 0.9, "eot_timeout_ms": 5000}
    assert tuple(answer[name] for name in ("thresholds", "keyterms", "language_hints")) == (
        thresholds,
        ["wlk"],
        [],
    )
    assert (other["thresholds"], other["keyterms"]) == (thresholds, ["Silero", "gate"])
    after = session.audio.options
    assert (before.keyterms, after.keyterms) == ("wlk", "Silero, gate")
    assert after.gate.silence_seconds > before.gate.silence_seconds


@pytest.mark.parametrize(
    "fields",
    [
        {"thresholds": {"eot_threshold": 2}},
        {"thresholds": {"eot_timeout_ms": [500]}},
        {"thresholds": {"eot_timeout_ms": "000000500" + 5000 * "0"}},
        {"thresholds": [0.7]},
        {"keyterms": {"a": 1}},
        {"keyterms": [1]},
        {"language_hints": ["tlh"]},
        {"keyterms": 150_000 * ["a"]},
        {"keyterms": ["a" * 20_000]},
    ],
)
def test_wrong_settings_change_nothing(fields):
    """The answer has a code, and says what was expected."""
    session = open_session()
    before = session.audio.options
    (answer,) = session.send(configure(**fields))

    assert answer["type"] == "ConfigureFailure"
    assert answer["code"]
    assert "expected" in answer["description"] or "language" in answer["description"]
    assert before == session.audio.options


def test_text_that_is_not_unicode_is_refused():
    """A lone surrogate would fail in the engine, with each chunk."""
    session = open_session()
    (answer,) = session.send('{"type": "Configure", "keyterms": ["\\ud800"]}')

    assert answer["type"] == "Error"
    assert session.audio.options.keyterms is None


def test_other_settings_wait_until_nobody_speaks():
    """A change before the first words would otherwise split a word."""
    session = open_session()
    session.send(*[QUARTER] * 4)
    session.send(configure(keyterms=["wlk"]))
    speech = [mark(0.5), mark(0.75), mark(1.0)]
    session.happen(*speech)
    during = session.audio.options.keyterms
    session.send(*[QUARTER] * 2)
    session.happen(mark(1.25, passed=1.1), mark(1.5, passed=1.1))

    assert (during, session.audio.options.keyterms) == (None, "wlk")


def test_other_settings_do_not_apply_to_audio_that_is_not_decoded_yet():
    """A client that is seconds ahead of the model may be speaking again."""
    session = open_session()
    session.send(*[QUARTER] * 20)
    session.send(configure(keyterms=["wlk"]))
    silence = Endpoint(0.75, "silence", 5.0), mark(1.0, passed=0.75), mark(1.25, passed=0.75)
    session.happen(Commit((token("zero", 0.5),), 5.0), *silence)

    assert session.audio.options.keyterms is None


def test_other_settings_hold_at_once_before_any_audio():
    """As agents set them when they connect."""
    session = open_session()
    session.send(configure(keyterms=["wlk"]))

    assert session.audio.options.keyterms == "wlk"


def test_settings_that_would_need_too_many_streams_wait_for_a_later_turn():
    """Audio would otherwise be lost with an error, which ends some clients."""
    session = open_session()
    for number in range(6):
        session.send(QUARTER, QUARTER)
        session.send(configure(keyterms=[str(number)]))
        time = session.audio.seconds
        session.happen(mark(time - 0.25, passed=0.1), mark(time, passed=0.1))

    assert [m["type"] for m in session.messages if m["type"] == "Error"] == []
    assert session.audio.samples == 6 * 8_000


@pytest.mark.parametrize("query", ["numerals=true", "redact=pci&profanity_filter=true"])
def test_fields_that_are_ignored_are_named_in_a_warning(query):
    """The protocol has a message for it."""
    connected, warning = open_session(query).messages

    assert (connected["sequence_id"], warning["sequence_id"]) == (0, 1)
    assert warning["type"] == "Warning"
    assert all(field.partition("=")[0] in warning["description"] for field in query.split("&"))


def test_an_ignored_setting_is_named_in_a_warning():
    """The other settings of the message apply."""
    success, warning = open_session().send(configure(keyterms=["wlk"], numerals=True))

    assert (success["type"], success["keyterms"]) == ("ConfigureSuccess", ["wlk"])
    assert "numerals" in warning["description"]


def test_a_message_that_keeps_the_connection_alive_is_no_error():
    """Some clients send that of v1 to both versions."""
    assert open_session().send('{"type": "KeepAlive"}') == []


def test_the_window_of_a_message_is_the_audio_that_was_decoded():
    """A client can be many seconds ahead of the model."""
    session = open_session()
    session.send(QUARTER * 40)
    messages = session.happen(
        Commit((token("zero", 0.5),), 10.0), mark(1.0), Endpoint(1.3, "silence", 10.0)
    )

    assert [message["audio_window_end"] for message in messages] == [0.5, 1.0, 1.3]


def test_words_have_times_and_turns_have_languages():
    """If the model detects languages, the most frequent one comes first."""
    session = open_session()
    session.send(QUARTER)
    words = (token("un", 0.5), token("two", 1.0), token("three", 1.5))
    spoken = zip(words, ("fr", "en", "en"), strict=True)
    tokens = [attrs.evolve(word, detected_language=code) for word, code in spoken]
    (start,) = session.happen(Commit(tuple(tokens), 1.5))

    assert start["languages"] == ["en", "fr"]
    assert (start["words"][0]["start"], start["words"][0]["end"]) == (0.25, 0.5)


HUSH = ("mark", "wait", "mark")
ACTIONS = strategies.lists(
    strategies.sampled_from(["word", "guess", "mark", "wait", "silence", "forced", FORCE, QUARTER])
    | strategies.just("hush")  # long enough for an eager end
)


def play(session, actions):
    """Play *actions* and a final pause; return the number of words."""
    clock, words = 0.0, 0
    actions = [QUARTER, *actions, "silence"]
    for action in chain.from_iterable(HUSH if each == "hush" else [each] for each in actions):
        clock += {"word": 0.25, "wait": 0.5}.get(action, 0.0)
        if action in {QUARTER, FORCE}:
            session.send(action)
        happening = {
            "word": Commit((token(str(words), clock),), clock),
            "guess": HypothesisChange(Transcript((token("perhaps", clock + 0.25),)), clock),
            "mark": mark(clock),
            "silence": Endpoint(clock, "silence", clock),
            "forced": Endpoint(clock, "commit", clock)
            if session.audio.segments[0].commits
            else None,
        }.get(action)
        if happening is not None:
            session.happen(happening)
        words += action == "word"
    return words


def check_turn(messages):
    """Check the order of the events of one complete turn."""
    names, transcripts = zip(*events(messages), strict=True)
    assert names[0] == "StartOfTurn"
    assert names.count("StartOfTurn") == 1
    assert names[-1] == "EndOfTurn"
    assert names.count("EndOfTurn") == 1
    assert [name for message in messages for name in message if name == "trigger"] == ["trigger"]
    eager = [number for number, name in enumerate(names) if name == "EagerEndOfTurn"]
    assert [number + 1 for number in eager if names[number + 1] == "TurnResumed"] == [
        number for number, name in enumerate(names) if name == "TurnResumed"
    ]
    for number in eager:
        assert transcripts[number]
        if names[number + 1] != "TurnResumed":
            assert (names[-1], transcripts[-1]) == ("EndOfTurn", transcripts[number])
            assert len(names) == number + 2


@given(ACTIONS)
def test_the_published_order_holds(actions):
    """Eager ends have text, and are either resumed or followed by an end with the same text."""
    session = open_session()
    words = play(session, actions)

    assert [message["sequence_id"] for message in session.messages] == list(
        range(len(session.messages))
    )
    said, turns = session.messages[1:], []
    for number in range(said[-1]["turn_index"] + 1 if said else 0):
        turns.append([message for message in said if message["turn_index"] == number])
        check_turn(turns[-1])
    assert [message for turn in turns for message in turn] == said
    texts = " ".join(turn[-1]["transcript"] for turn in turns).split()
    assert texts == [str(number) for number in range(words)]
