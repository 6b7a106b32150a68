"""
The messages of Jitsi's transcription proxy, replayed one by one.

They are those of
https://github.com/jitsi/opus-transcriber-proxy/blob/main/src/backends/OpenAIBackend.ts
"""

from __future__ import annotations

import json

import pytest

from wlk_conformance.protocols import PlayedSession, speech

from .test_rules import CLIENT, append

TURNS = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300}
TURNS["silence_duration_ms"] = 500
KNOWN = {  # all that `handleMessage` reads without logging a warning
    "session.created",
    "session.updated",
    "input_audio_buffer.committed",
    "input_audio_buffer.speech_started",
    "input_audio_buffer.speech_stopped",
    "conversation.item.added",
    "conversation.item.done",
    "conversation.item.input_audio_transcription.delta",
    "conversation.item.input_audio_transcription.completed",
    "error",
}
COMMIT = json.dumps({"type": "input_audio_buffer.commit"})  # `forceCommit`, of an idle participant


def update(**transcription):
    """Return the message of `sendSessionUpdate`."""
    audio = {
        "format": {"type": "audio/pcm", "rate": 24000},
        "noise_reduction": {"type": "near_field"},
        "transcription": {"model": "played", **transcription},
        "turn_detection": TURNS,
    }
    session = {"type": "transcription", "audio": {"input": audio}}
    session["include"] = ["item.input_audio_transcription.logprobs"]
    return json.dumps({"type": "session.update", "session": session})


@pytest.mark.parametrize("language", [{}, {"language": "en"}], ids=["detected", "forced"])
def test_the_proxy_gets_deltas_and_finals_with_one_id_and_no_message_that_it_does_not_know(
    language,
):
    """A commit of nothing is the one error that it ignores; any other closes its socket."""
    session = PlayedSession(CLIENT)
    session.send(update(**language))
    for word in ([1, 2], [None] * 9, [3]):
        session.send(*append(speech(word, 24_000)))
    session.send(COMMIT, update(prompt="names", **language), COMMIT)

    assert {message["type"] for message in session.messages} <= KNOWN
    texts = {}
    for message in session.messages:
        kind = message["type"].rpartition(".")[2]
        if kind in {"delta", "completed"}:
            assert isinstance(message["logprobs"], list)  # whose first entry is the confidence
            key = (message["item_id"], kind)
            texts[key] = texts.get(key, "") + message.get("delta", message.get("transcript", ""))
    for (item, kind), text in texts.items():
        assert kind == "delta" or text == texts.get((item, "delta"), "")
    assert [text for (_, kind), text in texts.items() if text and kind == "completed"] == [
        "w1 w2",
        "w3",
    ]
    errors = [each["error"] for each in session.messages if each["type"] == "error"]
    assert [(each["type"], each["code"]) for each in errors] == [
        ("invalid_request_error", "input_audio_buffer_commit_empty")
    ]
