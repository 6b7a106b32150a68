"""Strict parsing of forms as browsers and API clients send them (RFC 7578)."""

from __future__ import annotations

from email import message_from_bytes
from email.policy import HTTP
from io import BytesIO
import wave

import attrs
import numpy as np

__all__ = ["BadRequest", "Part", "parse_form", "read_wav"]


class BadRequest(Exception):  # noqa: N818 -- the name of the status
    """The endpoint does not accept the request; the message has the reason."""


@attrs.frozen
class Part:
    """A field of a form."""

    name: str
    body: bytes
    filename: str | None = None
    content_type: str | None = None


def parse_form(content_type: str, body: bytes) -> list[Part]:
    """Return the fields of a form in order; BadRequest for any other body."""
    form = message_from_bytes(
        b"content-type: " + content_type.encode() + b"\r\n\r\n" + body, policy=HTTP
    )
    if form.get_content_type() != "multipart/form-data" or form.defects:
        raise BadRequest(f"expected multipart/form-data with its boundary, got {content_type!r}")
    return [
        Part(
            name=part.get_param("name", header="content-disposition"),
            body=part.get_payload(decode=True),
            filename=part.get_filename(),
            content_type=part.get("content-type"),
        )
        for part in form.iter_parts()
    ]


def read_wav(file: bytes) -> np.ndarray:
    """Return float32[n] of a WAV file of 16-bit samples at 16 kHz in one channel."""
    try:
        with wave.open(BytesIO(file)) as reader:
            layout = (reader.getnchannels(), reader.getsampwidth(), reader.getframerate())
            count, data = reader.getnframes(), reader.readframes(reader.getnframes())
    except (wave.Error, EOFError) as error:
        raise BadRequest(f"the file is not a WAV file: {error}") from None
    if layout != (1, 2, 16_000):
        raise BadRequest(f"expected 1 channel, 2 bytes a sample at 16000 Hz, got {layout}")
    if len(data) != 2 * count or len(file) != 44 + len(data):
        raise BadRequest(f"the header declares {count} samples, the file has {len(data)} bytes")
    return np.frombuffer(data, "<i2").astype(np.float32) / 32768.0
