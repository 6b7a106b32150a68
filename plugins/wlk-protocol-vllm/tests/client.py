"""What clients of vLLM's realtime endpoint do."""

from __future__ import annotations

import base64
import json

from wlk_conformance.protocols import Client
from wlk_protocol_vllm.routes import wlk_protocols


def append(part):
    """Return the message of a part of the audio."""
    audio = base64.b64encode(part).decode()
    return [json.dumps({"type": "input_audio_buffer.append", "audio": audio})]


def text(messages):
    """Return the joined texts of all transcriptions."""
    done = [message for message in messages if message["type"] == "transcription.done"]
    return " ".join(message["text"] for message in done)


CLIENTS = {
    "vllm": Client(
        route=wlk_protocols()[0],
        begin=[
            '{"type": "session.update", "model": "played"}',
            '{"type": "input_audio_buffer.commit"}',
        ],
        audio=append,
        end=['{"type": "input_audio_buffer.commit", "final": true}'],
        text=text,
    )
}
