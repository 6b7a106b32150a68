"""What a client of a Realtime session sends: JSON messages, and audio in base64."""

from __future__ import annotations

import base64
import binascii
import json
import reprlib
from typing import TYPE_CHECKING, Any, TypeAlias

from wlk_serve.errors import RequestError

if TYPE_CHECKING:
    from wlk_serve.realtime.config import AudioFormat

__all__ = ["check_samples", "decode_audio", "message_type", "parse_message"]

Message: TypeAlias = "dict[str, Any]"


def parse_message(text: str) -> Message:
    """
    Return the object of a message.

    Raises:
        RequestError: it is no JSON, or no object.

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


def message_type(message: Message) -> str:
    """
    Return the type of a message, which need not be one that exists.

    Raises:
        RequestError: it is no text.

    """
    kind = message.get("type")
    if not isinstance(kind, str):
        raise RequestError(
            f"expected `type` as a text, got {reprlib.repr(kind)}",
            code="invalid_event",
            param="type",
        )
    return kind


def decode_audio(audio: object, audio_format: AudioFormat) -> bytes:
    """
    Return the bytes of an append.

    Raises:
        RequestError: *audio* is no base64, or does not end with a sample.

    """
    if not isinstance(audio, str):
        raise RequestError(
            f"expected `audio` as base64 text, got {reprlib.repr(audio)}",
            code="invalid_type",
            param="audio",
        )
    try:
        data = base64.b64decode(audio, validate=True)
    except (binascii.Error, ValueError):
        raise RequestError(
            f"expected `audio` as base64 text, got {reprlib.repr(audio)}",
            code="invalid_value",
            param="audio",
        ) from None
    check_samples(data, audio_format)
    return data


def check_samples(data: bytes, audio_format: AudioFormat) -> None:
    """Raise RequestError unless *data* ends with a sample."""
    size = audio_format.sample_bytes
    if len(data) % size:
        raise RequestError(
            f"expected `audio` in whole samples of {size} bytes, got {len(data)} bytes",
            code="invalid_value",
            param="audio",
        )
