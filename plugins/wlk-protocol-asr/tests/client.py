"""What clients of WhisperLiveKit do."""

from __future__ import annotations

from wlk_conformance.protocols import Client
from wlk_protocol_asr.routes import wlk_protocols


def text(messages):
    """Return the text of the last state in mode "full"."""
    states = [message for message in messages if "lines" in message]
    return " ".join(line["text"] for state in states[-1:] for line in state["lines"])


CLIENTS = {
    "full": Client(
        route=wlk_protocols()[0], audio=lambda part: [part], end=[b""], part_bytes=1, text=text
    )
}
