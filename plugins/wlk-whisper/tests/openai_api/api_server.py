"""
A transcription server on this machine that accepts what OpenAI's accepts, and nothing else.

It really recognises digits, with the bundled checkpoint through faster-whisper.
"""

from __future__ import annotations

from collections import deque
from email import message_from_bytes
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
import json
import re
import sys
import threading
import wave

import attrs
import numpy as np

from wlk_conformance.testing import load_clip
from wlk_core import load_backend

KEY = "sk-loopback-0123456789"
MODEL = "digits"
SEGMENT_WORDS = 4  # in the segments of a response

# https://platform.openai.com/docs/api-reference/audio: the fields of a request.
FIELDS = {
    "/v1/audio/transcriptions": frozenset(
        {"file", "model", "language", "prompt", "response_format", "timestamp_granularities[]"}
    ),
    "/v1/audio/translations": frozenset({"file", "model", "prompt", "response_format"}),
}
EMPTY = {"text": "", "words": []}


class BadRequest(Exception):  # noqa: N818 -- the name of the status
    """The server does not accept the request; the message has the reason."""


@attrs.frozen(kw_only=True)
class AcceptedRequest:
    """An accepted request: its fields as text, and the audio, float32[n]."""

    path: str
    fields: dict[str, list[str]]
    audio: object = attrs.field(repr=False)
    headers: dict[str, str] = attrs.field(repr=False)


def response(status, body, *, content_type="application/json", **headers):
    """Return a function that responds to any request in one way; `headers` have _ for -."""

    def respond(handler):
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.reply(status, data, content_type, named)

    return respond


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


REJECTION = response(400, {"error": {"message": "Unsupported language"}})


class DigitsServer(ThreadingHTTPServer):
    """
    The server; `url` is its base URL.

    The functions in `next` respond to the next requests, one each, before any other handling.
    Requests are counted in `arrivals`.  Those whose number is in `fail_at` fail, each in one of the
    ways that servers do.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.backend = load_backend("faster-whisper", "digits", device="cpu", cpu_threads=1)
        self.next = deque()
        self.accepted = []
        self.rejections = []
        self.arrivals = 0
        self.fail_at = frozenset()
        self.lock = threading.Lock()

    @property
    def url(self):
        """The base URL."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request, client_address):
        """Ignore clients that close the connection early, as they do at their limits."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def transcribe(self, request):
        """Return a verbose_json response."""
        prompt, language = (request.fields.get(name, [None])[0] for name in ("prompt", "language"))
        # The language is only repeated, because the checkpoint recognises English alone.
        stream = self.backend.create_processor(
            prompt=prompt, tick_seconds=10.0, buffer_seconds=25.0
        )
        stream.insert_audio_chunk(request.audio)
        tokens = stream.finish().committed
        stream.close()
        parts = [
            tokens[first : first + SEGMENT_WORDS] for first in range(0, len(tokens), SEGMENT_WORDS)
        ]
        answer = {
            "language": language or "english",
            "text": _text(tokens),
            "segments": [
                {"start": part[0].start, "end": part[-1].end, "text": f" {_text(part)}"}
                for part in parts
            ],
        }
        words = [{"word": _text([t]), "start": t.start, "end": t.end} for t in tokens]
        return answer if "translations" in request.path else {**answer, "words": words}


def _text(tokens):
    return "".join(token.text for token in tokens).strip()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        """Respond as `next` or `fail_at` demand, else parse the request and transcribe."""
        body = self.rfile.read(int(self.headers["content-length"]))
        re.purge()  # re caches the pattern that the header parser compiles for every boundary
        with self.server.lock:
            self.server.arrivals += 1
            number = self.server.arrivals
            prepared = self.server.next.popleft() if self.server.next else None
        if number in self.server.fail_at:
            prepared = FAULTS[number % len(FAULTS)]
        form = message_from_bytes(
            b"content-type: " + self.headers["content-type"].encode() + b"\r\n\r\n" + body,
            policy=HTTP,
        )
        parts = [
            (part.get_param("name", header="content-disposition"), part)
            for part in form.iter_parts()
        ]
        fields = {}
        for name, part in parts:
            if name != "file":
                fields.setdefault(name, []).append(part.get_payload(decode=True).decode())
        self.language = fields.get("language", [None])[0]
        if prepared is not None:
            prepared(self)
            return
        try:
            request = self.accept(fields, [part for name, part in parts if name == "file"])
        except BadRequest as error:
            self.server.rejections.append(str(error))
            self.reject(400, str(error), "invalid_request_error")
            return
        if request is not None:
            self.reply(200, json.dumps(self.server.transcribe(request)).encode())

    def accept(self, fields, files):
        """Return the checked request; None after rejecting it by its status."""
        if self.headers["authorization"] != f"Bearer {KEY}":
            key = (self.headers["authorization"] or "").removeprefix("Bearer ")
            self.reject(401, f"Incorrect API key provided: {key}.", "invalid_api_key")
            return None
        if self.path not in FIELDS:
            self.reject(404, f"Invalid URL (POST {self.path})", None)
            return None
        granularities = ["segment", "word"] if "transcriptions" in self.path else []
        language = fields.get("language", ["en"])[0]
        checks = {
            "unknown fields": fields.keys() <= FIELDS[self.path],
            "one file": len(files) == 1 and files[0].get_filename().endswith(".wav"),
            "a WAV file": files and files[0].get("content-type") == "audio/wav",
            "verbose_json": fields.get("response_format") == ["verbose_json"],
            "granularities": sorted(fields.get("timestamp_granularities[]", [])) == granularities,
            "empty fields": all(value for values in fields.values() for value in values),
            "ISO-639-1": len(language) == 2 and language != "jw",
        }
        if faults := [name for name, is_right in checks.items() if not is_right]:
            raise BadRequest(f"wrong: {', '.join(faults)}, got {fields}")
        if fields["model"] != [MODEL]:
            self.reject(404, f"The model `{fields['model'][0]}` does not exist", "model_not_found")
            return None
        audio = _read_wav(files[0].get_payload(decode=True))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = AcceptedRequest(path=self.path, fields=fields, audio=audio, headers=headers)
        self.server.accepted.append(request)
        return request

    def reject(self, status, message, code):
        """Respond with an error in OpenAI's form."""
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
        self.reply(status, json.dumps({"error": error}).encode())

    def reply(self, status, data, content_type="application/json", headers=None):
        """Respond with *data*."""
        self.send_response(status)
        named = {"content-type": content_type, "content-length": str(len(data))}
        for name, value in (named | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def break_off(self):
        """Announce a response, send its beginning and drop the connection."""
        self.reply(200, b'{"text": "on', headers={"content-length": "1000"})
        self.close_connection = True

    def drop(self):
        """Close the connection without a response."""
        self.close_connection = True

    def log_message(self, *_arguments):
        """Log nothing."""


#: How servers fail: an error, overload, no response, half of one, a proxy's page instead.
FAULTS = (
    response(500, {"error": {"message": "The server had an error"}}),
    response(429, {"error": {"message": "Rate limit reached"}}),
    _Handler.drop,
    _Handler.break_off,
    response(200, '{"text": "on'),
    response(200, "<html><title>Sign in</title></html>", content_type="text/html"),
)


def _read_wav(file):
    """Return float32[n] of a WAV file of 16-bit samples at 16 kHz in one channel."""
    with wave.open(BytesIO(file)) as reader:
        layout = (reader.getnchannels(), reader.getsampwidth(), reader.getframerate())
        count, data = reader.getnframes(), reader.readframes(reader.getnframes())
    if layout != (1, 2, 16_000) or len(data) != 2 * count or len(file) != 44 + len(data):
        raise BadRequest(f"expected 1 channel, 2 bytes a sample at 16000 Hz, got {layout}")
    if count < 1600:
        raise BadRequest("Audio file is too short. Minimum audio length is 0.1 seconds.")
    return np.frombuffer(data, "<i2").astype(np.float32) / 32768.0
