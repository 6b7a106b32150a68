"""What Home Assistant does."""

from __future__ import annotations

import json

from wlk_conformance.protocols import Client
from wlk_protocol_wyoming.routes import wlk_protocols

FORM = {"rate": 16_000, "width": 2, "channels": 1}


def event(kind, data, payload=b""):
    """Return the bytes of an event."""
    header = {"type": kind, "data": data, "payload_length": len(payload)}
    return json.dumps(header).encode() + b"\n" + payload


def text(messages):
    """Return the joined transcripts."""
    found = [message for message in messages if message["type"] == "transcript"]
    return " ".join(message["data"]["text"] for message in found)


CLIENTS = {
    "home assistant": Client(
        route=wlk_protocols()[0],
        begin=[event("audio-start", FORM)],
        audio=lambda part: [event("audio-chunk", FORM, part)],
        end=[event("audio-stop", {})],
        text=text,
        has_pauses=False,
    )
}
