from __future__ import annotations

import base64

import pytest

from wlk_core.processor import StreamStats
from wlk_core.session.events import Commit, Endpoint, Marked
from wlk_core.tokens import Transcript

SECOND = base64.b64encode(bytes(64_000)).decode()
FORMAT = {"type": "audio/wlk-f32le", "rate": 16_000}
SESSION = {
    "audio": {"input": {"turn_detection": None, "format": FORMAT}},
    "include": ["wlk.marks"],
}


def marked(name, *tokens, upto=1.0):
    """Return the event of a mark with a hypothesis."""
    return Marked(
        name=name,
        transcript=Transcript(tokens),
        processed_up_to=upto,
        stable_up_to=upto / 2,
        stats=StreamStats(audio_seconds=upto),
        audio_time=upto,
    )


def test_a_mark_brings_the_tokens_since_the_last_one(protocol, client, streams, token):
    """Times are not rounded, texts keep their spacing, and each token comes once."""
    (updated,) = client("session.update", session=SESSION)
    client("input_audio_buffer.append", audio=SECOND)
    client("wlk.mark", id="a")
    first = token(" zero", 1 / 3, 0.5)

    messages = protocol.handle(
        streams[0], [Commit((first,), 1.0), marked("a", token(" one", 0.6, 0.7)), marked("b")]
    )

    assert not streams[0].settings.leaves_out_pauses
    assert FORMAT == updated["session"]["audio"]["input"]["format"]
    assert [("receive", 64_000), ("mark", "a")] == streams[0].calls
    a, b = [message for message in messages if message["type"] == "wlk.marked"]
    assert ("a", 1.0, 0.5) == (a["id"], a["processed_up_to"], a["stable_up_to"])
    assert [(1 / 3, " zero", 0.5)] == [
        (record["start"], record["text"], record["probability"]) for record in a["tokens"]
    ]
    assert [" one"] == [record["text"] for record in a["hypothesis"]]
    assert 1.0 == a["stats"]["audio_seconds"]
    assert ([], []) == (b["tokens"], b["hypothesis"])


def test_a_clear_answers_the_marks_in_the_audio_that_it_drops(protocol, client, streams, token):
    """With what was committed before, no hypothesis, and the time of the mark."""
    client("session.update", session=SESSION)
    for name in ("a", "b"):
        client("input_audio_buffer.append", audio=SECOND)
        client("wlk.mark", id=name)
    protocol.handle(streams[0], [Commit((token(" zero"),), 1.0)])

    *messages, cleared = client("input_audio_buffer.clear")

    assert "input_audio_buffer.cleared" == cleared["type"]
    assert [("a", [" zero"], [], 1.0, 1.0), ("b", [], [], 2.0, 2.0)] == [
        (
            message["id"],
            [record["text"] for record in message["tokens"]],
            message["hypothesis"],
            message["processed_up_to"],
            message["stable_up_to"],
        )
        for message in messages
    ]


def test_marks_that_a_clear_drops_come_back_after_those_before_them(protocol, client, streams):
    """A commit before the clear is still decoded, and its mark comes first."""
    client("session.update", session=SESSION)
    client("input_audio_buffer.append", audio=SECOND)
    client("wlk.mark", id="a")
    client("input_audio_buffer.commit")
    client("wlk.mark", id="b")
    client("session.update", session={"audio": {"input": {"transcription": {"language": "fr"}}}})
    client("wlk.mark", id="c")

    (cleared,) = client("input_audio_buffer.clear")
    messages = protocol.handle(streams[0], [marked("a"), Endpoint(1.0, "commit", 1.0), marked("b")])

    assert "input_audio_buffer.cleared" == cleared["type"]
    names = [message["id"] for message in messages if message["type"] == "wlk.marked"]
    assert ["a", "b", "c"] == names
    assert [("close",)] * 2 == [stream.calls[-1] for stream in streams]


@pytest.mark.parametrize("name", [None, 7, "x" * 201], ids=["none", "a number", "long"])
def test_a_mark_has_a_short_name(client, streams, name):
    """Anything else is refused, and opens no stream."""
    client("session.update", session=SESSION)

    (message,) = client("wlk.mark", id=name)

    assert [] == streams
    assert ("invalid_value", "id") == (message["error"]["code"], message["error"]["param"])
