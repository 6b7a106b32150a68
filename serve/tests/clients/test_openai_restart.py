"""OpenAI's client continues by itself when the server restarts in mid-sentence."""

from __future__ import annotations

import base64

import pytest

openai = pytest.importorskip("openai", reason="install openai[realtime], or run nox -s clients")

pytestmark = pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager")
COMPLETED = "conversation.item.input_audio_transcription.completed"
DELTA = "conversation.item.input_audio_transcription.delta"
PAUSE = 6.5  # seconds: between the two turns of the clip
SESSION = {
    "type": "transcription",
    "audio": {"input": {"format": {"type": "audio/pcm", "rate": 24_000}, "turn_detection": None}},
}


class Talk:
    """Talks to the client: one turn of the clip per connection, and SIGTERM at the first delta."""

    def __init__(self, server, speech):
        audio = (speech(stop=PAUSE), speech(start=PAUSE))
        self.waiting = [base64.b64encode(part).decode() for part in audio]
        self.turns = []
        self.codes = []
        self._server = server
        self._is_terminated = False

    def reconnect(self, attempt):
        """Restart the server before the first attempt."""
        self.codes.append(attempt.close_code)
        if len(self.codes) == 1:
            self._server.restart()

    def take(self, event):
        """Record an event; return the messages to send."""
        if event.type == COMPLETED:
            self.turns.append(event.transcript)
        if event.type == DELTA and not self._is_terminated:
            self._is_terminated = True
            self._server.terminate()
        if event.type != "session.created":
            return []
        messages = [
            {"type": "session.update", "session": SESSION},
            {"type": "input_audio_buffer.append", "audio": self.waiting.pop(0)},
        ]
        # The shutdown ends the first turn.
        return messages if self.waiting else [*messages, {"type": "input_audio_buffer.commit"}]


def test_a_restart_loses_no_word(restartable, expected, speech):
    """SIGTERM completes the open item and closes with 1012, and the client reconnects."""
    talk = Talk(restartable, speech)
    with (
        openai.OpenAI(base_url=restartable.address, api_key="secret") as client,
        client.realtime.connect(model="digits", on_reconnecting=talk.reconnect) as connection,
    ):
        for event in connection:
            for message in talk.take(event):
                connection.send(message)
            if len(talk.turns) == len(expected.turns):
                break

    assert talk.codes == [1012]
    assert talk.turns == list(expected.turns)
