"""Parse what a client sends: JSON messages and audio."""

from __future__ import annotations

import base64
import binascii
import json
import reprlib
from typing import TYPE_CHECKING, NamedTuple

from wlk_serve.errors import RequestError, invalid

if TYPE_CHECKING:
    from wlk_serve.realtime.config import AudioFormat
    from wlk_serve.sessions.protocol import Message

__all__ = ["APPEND", "ClientMessage", "decode_audio", "parse_message"]

APPEND = "input_audio_buffer.append"


class ClientMessage(NamedTuple):
    """A message of a client: its type, which need not exist, its fields, the bytes of an append."""

    kind: str
    fields: Message
    audio: bytes


def parse_message(text: str) -> Message:
    """
    Return the object of a message.

    Raises:
        RequestError: it is not valid JSON, or not an object.

    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise RequestError(
            f"expected a message of JSON, got {reprlib.repr(text)}", code="invalid_json"
        ) from None
    if not isinstance(message, dict):
        raise RequestError(
            f"expected a message that is a JSON object, got {reprlib.repr(message)}",
            code="invalid_event",
        )
    return message


def decode_audio(audio: object, audio_format: AudioFormat) -> bytes:
    """
    Return the bytes of an append, which are base64 in JSON and plain in a binary message.

    Raises:
        RequestError: *audio* is not base64, or does not end with a sample.

    """
    if isinstance(audio, bytes):
        data = audio
    else:
        expected = ("audio", "as base64 text", reprlib.repr(audio))
        if not isinstance(audio, str):
            raise invalid(*expected, code="invalid_type")
        try:
            data = base64.b64decode(audio, validate=True)
        except (binascii.Error, ValueError):
            raise invalid(*expected) from None
    size = audio_format.sample_bytes
    if len(data) % size:
        raise invalid("audio", f"in whole samples of {size} bytes", f"{len(data)} bytes")
    return data
