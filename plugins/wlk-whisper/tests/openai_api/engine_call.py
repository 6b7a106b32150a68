"""A request as a stream makes it, and responses to it that several tests share."""

from __future__ import annotations

from api_server import response

from wlk_conformance.testing import load_clip

__all__ = ["EMPTY", "REJECTION", "recording", "transcribe"]

EMPTY = {"text": "", "words": []}
REJECTION = response(400, {"error": {"message": "Unsupported language"}})


def transcribe(backend, audio=None, **arguments):
    """Make one request of a backend, as a stream would."""
    audio = load_clip("demo").audio[: 16_000 * 3] if audio is None else audio
    return backend.engine.transcribe(audio, **{"prompt": "", "language": None, **arguments})


def recording(languages, respond):
    """Return a response that first appends the request's language to *languages*."""

    def record_and_respond(handler):
        languages.append(handler.language)
        respond(handler)

    return record_and_respond
