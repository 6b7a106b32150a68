"""A small server that speaks OpenAI's realtime transcription."""

from __future__ import annotations

import base64
import json

import numpy as np
from websockets.exceptions import ConnectionClosed

RATE = 24_000
_ITEM = "conversation.item.input_audio_transcription."


class SmallOpenAi:
    """
    A server that transcribes every second of audio as a word, "word0 word1 ...".

    Attributes:
        is_live: whether deltas are sent while audio arrives, as by gpt-live-transcribe and SGLang.
        is_flat: whether sessions have the flat fields of the beta protocol, as at speaches.
        has_detection: whether turn detection cannot be switched off.
        items: the samples of each item.

    """

    def __init__(self, *, is_live=True, is_flat=False, has_detection=False):
        self.is_live = is_live
        self.is_flat = is_flat
        self.has_detection = has_detection
        self.items = []
        self.updates = []

    def models(self):
        """Return a list of models without capabilities."""
        return {"data": [{"id": "gpt-live-transcribe", "object": "model"}]}

    def session(self, update):
        """Return the effective configuration."""
        detection = {"type": "server_vad"} if self.has_detection else None
        if self.is_flat:
            return {"turn_detection": detection, "input_audio_transcription": {}}
        source = {"format": {"type": "audio/pcm", "rate": RATE}, **update}
        return {"type": "transcription", "audio": {"input": source | {"turn_detection": detection}}}

    def serve(self, connection):
        """Serve a session."""

        def send(kind, **fields):
            connection.send(json.dumps({"type": kind, "event_id": "event_1", **fields}))

        send("session.created", session=self.session({}))
        audio, words = np.empty(0, np.int16), []
        try:
            for text in connection:
                message = json.loads(text)
                match message["type"]:
                    case "session.update":
                        self.updates.append(message["session"])
                        send("session.updated", session=self.session({}))
                    case "input_audio_buffer.append":
                        data = base64.b64decode(message["audio"])
                        audio = np.concatenate((audio, np.frombuffer(data, "<i2")))
                        while self.is_live and len(words) < len(audio) // RATE:
                            words.append(f"{' ' * bool(words)}word{len(words)}")
                            send(f"{_ITEM}delta", item_id="item_1", delta=words[-1])
                    case "input_audio_buffer.commit" if len(audio) < RATE // 10:
                        error = {"message": "too short", "code": "input_audio_buffer_commit_empty"}
                        send("error", error=error)
                    case "input_audio_buffer.commit":
                        self.items.append(audio)
                        count = len(audio) // RATE
                        transcript = " ".join(f"word{number}" for number in range(count))
                        audio, words = np.empty(0, np.int16), []
                        send("input_audio_buffer.committed", item_id="item_1")
                        send(f"{_ITEM}completed", item_id="item_1", transcript=transcript)
        except ConnectionClosed:
            pass
