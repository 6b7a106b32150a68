"""Clients of both versions of Deepgram's API."""

from __future__ import annotations

from wlk_conformance.protocols import Client
from wlk_protocols.deepgram.routes import routes

LISTEN, FLUX, RECORDINGS = routes()
AUDIO = "encoding=linear16&sample_rate=16000"


def final_text(messages):
    """Return the joined transcripts of the final results."""
    results = [message for message in messages if message.get("is_final")]
    return " ".join(result["channel"]["alternatives"][0]["transcript"] for result in results)


def turns_text(messages):
    """Return the joined transcripts of the turns."""
    ends = [message for message in messages if message.get("event") == "EndOfTurn"]
    return " ".join(end["transcript"] for end in ends)


def client(route, query, text):
    """Return a client that sends audio and closes the stream."""
    return Client(
        route=route,
        query=f"{AUDIO}&{query}",
        audio=lambda part: [part],
        end=['{"type": "CloseStream"}'],
        text=text,
        part_bytes=1,
    )


CLIENTS = {
    "listen": client(LISTEN, "", final_text),
    "listen with interims": client(LISTEN, "interim_results=true&vad_events=true", final_text),
    "flux": client(FLUX, "", turns_text),
    "flux with eager ends": client(FLUX, "eager_eot_threshold=0.3", turns_text),
}
