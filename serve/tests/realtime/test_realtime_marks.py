from __future__ import annotations

import base64

import pytest

from wlk_core.processor import StreamStats
from wlk_core.tokens import Transcript
from wlk_live.session.events import Commit, Marked

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
    """Times are not rounded, tokens keep their spacing, and each comes once."""
    (updated,) = client("session.update", session=SESSION)
    client("input_audio_buffer.append", audio=SECOND)
    client("wlk.mark", id="a")
    first = token(" zero", 1 / 3, 0.5)

    messages = protocol.handle(
        streams[0], [Commit((first,), 1.0), marked("a", token(" one", 0.6, 0.7)), marked("b")]
    )

    assert not streams[0].options.leaves_out_pauses
    assert updated["session"]["audio"]["input"]["format"] == FORMAT
    assert streams[0].calls == [("receive", 16_000), ("mark", "a")]
    a, b = [message for message in messages if message["type"] == "wlk.marked"]
    assert (a["id"], a["processed_up_to"], a["stable_up_to"]) == ("a", 1.0, 0.5)
    assert [(record["start"], record["text"], record["probability"]) for record in a["tokens"]] == [
        (1 / 3, " zero", 0.5)
    ]
    assert [record["text"] for record in a["hypothesis"]] == [" one"]
    assert a["stats"]["audio_seconds"] == 1.0
    assert (b["tokens"], b["hypothesis"]) == ([], [])


@pytest.mark.parametrize("name", [None, 7, "x" * 201], ids=["none", "a number", "long"])
def test_a_mark_has_a_short_name(client, streams, name):
    """Any other name is refused, and opens no stream."""
    client("session.update", session=SESSION)

    (message,) = client("wlk.mark", id=name)

    assert streams == []
    assert (message["error"]["code"], message["error"]["param"]) == ("invalid_value", "id")
