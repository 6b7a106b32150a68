"""Strict parsing of forms as browsers and API clients send them (RFC 7578)."""

from __future__ import annotations

from email.message import Message
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
    header = _header(content_type)
    boundary = header.get_param("boundary", header="content-type")
    if header.get_content_type() != "multipart/form-data" or not isinstance(boundary, str):
        raise BadRequest(f"expected multipart/form-data with a boundary, got {content_type!r}")
    first, *middle, last = body.split(b"--" + boundary.encode())
    if first or last != b"--\r\n":
        raise BadRequest("the form does not begin and end with its boundary")
    return [_part(chunk) for chunk in middle]


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


def _part(chunk: bytes) -> Part:
    head, separator, body = chunk.partition(b"\r\n\r\n")
    if not separator or not head.startswith(b"\r\n") or not body.endswith(b"\r\n"):
        raise BadRequest("a field of the form is cut off")
    headers = dict(line.split(": ", 1) for line in head.decode().removeprefix("\r\n").split("\r\n"))
    headers = {name.lower(): value for name, value in headers.items()}
    disposition = Message()
    disposition["content-disposition"] = headers.get("content-disposition", "")
    name = disposition.get_param("name", header="content-disposition")
    if disposition.get_content_disposition() != "form-data" or not isinstance(name, str):
        raise BadRequest("a field of the form has no name")
    return Part(name, body[:-2], disposition.get_filename(), headers.get("content-type"))


def _header(content_type: str) -> Message:
    header = Message()
    header["content-type"] = content_type
    return header
