"""
A transcription endpoint on this machine that accepts what OpenAI's accepts, and nothing else.

It really recognises digits, with the bundled checkpoint through faster-whisper.
"""

from __future__ import annotations

from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import json
import re
import sys
import threading

import attrs
from form_data import BadRequest, Part, parse_form, read_wav

__all__ = ["FAULTS", "KEY", "MODEL", "AcceptedRequest", "DigitsServer", "response"]

KEY = "sk-loopback-0123456789"
MODEL = "digits"
MIN_SECONDS = 0.1  # as OpenAI's

# https://platform.openai.com/docs/api-reference/audio: optional and required fields.
FIELDS = {
    "/v1/audio/transcriptions": frozenset(
        {"file", "model", "language", "prompt", "response_format", "timestamp_granularities[]"}
    ),
    "/v1/audio/translations": frozenset({"file", "model", "prompt", "response_format"}),
}
REQUIRED = frozenset({"file", "model", "response_format"})


@attrs.frozen(kw_only=True)
class AcceptedRequest:
    """An accepted request: its fields as text, and the audio, float32[n]."""

    path: str
    fields: dict[str, list[str]]
    audio: object = attrs.field(repr=False)
    headers: dict[str, str] = attrs.field(repr=False)

    @property
    def seconds(self):
        """The length of the audio."""
        return len(self.audio) / 16_000


def response(status, body, *, content_type="application/json", **headers):
    """Return a function that responds to any request in one way; `headers` have _ for -."""

    def respond(handler):
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        handler.reply(status, data, content_type, named)

    return respond


class DigitsServer(ThreadingHTTPServer):
    """
    The endpoint; `url` is its base URL.

    The functions in `next` respond to the next requests, one each, before any other handling.
    Requests are counted in `arrivals`.  Those whose number is in `fail_at` fail, each in one of the
    ways that endpoints do.  `before_response`, where it is set, is called before any other
    response.
    """

    daemon_threads = True

    def __init__(self, recognizer):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.recognizer = recognizer
        self.next = deque()
        self.accepted = []
        self.rejections = []
        self.arrivals = 0
        self.fail_at = frozenset()
        self.before_response = None
        self.lock = threading.Lock()

    @property
    def url(self):
        """The base URL."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request, client_address):
        """Ignore clients that close the connection early, as they do at their limits."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        """Respond as `next` or `fail_at` demand, else parse the request and transcribe."""
        body = self.rfile.read(int(self.headers["content-length"]))
        re.purge()  # it keeps the pattern that the parser of headers compiles for every boundary
        with self.server.lock:
            self.server.arrivals += 1
            number = self.server.arrivals
            prepared = self.server.next.popleft() if self.server.next else None
        if number in self.server.fail_at:
            prepared = FAULTS[number % len(FAULTS)]
        if prepared is not None:
            self.language = _language_of(parse_form(self.headers["content-type"], body))
            prepared(self)
            return
        if (before_response := self.server.before_response) is not None:
            before_response()
        try:
            request = self.accept(body)
        except BadRequest as error:
            self.server.rejections.append(str(error))
            self.reject(400, str(error), "invalid_request_error")
            return
        if request is not None:
            self.reply(200, json.dumps(self.server.recognizer.transcribe(request)).encode())

    def accept(self, body):
        """Return the parsed request; None after rejecting it by its status."""
        if self.headers["authorization"] != f"Bearer {KEY}":
            key = (self.headers["authorization"] or "").removeprefix("Bearer ")
            self.reject(401, f"Incorrect API key provided: {key}.", "invalid_api_key")
            return None
        if self.path not in FIELDS:
            self.reject(404, f"Invalid URL (POST {self.path})", None)
            return None
        parts = parse_form(self.headers["content-type"], body)
        fields: dict[str, list[str]] = {}
        for part in parts:
            if part.name not in FIELDS[self.path]:
                raise BadRequest(f"unknown field {part.name!r}")
            if part.name != "file":
                fields.setdefault(part.name, []).append(part.body.decode())
        file = _only_file(parts)
        _check_fields(self.path, fields)
        if fields["model"] != [MODEL]:
            self.reject(404, f"The model `{fields['model'][0]}` does not exist", "model_not_found")
            return None
        audio = read_wav(file.body)
        if len(audio) < MIN_SECONDS * 16_000:
            raise BadRequest("Audio file is too short. Minimum audio length is 0.1 seconds.")
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
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def break_off(self):
        """Announce a response, send its beginning and drop the connection."""
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "1000")
        self.end_headers()
        self.wfile.write(b'{"text": "on')
        self.wfile.flush()
        self.close_connection = True

    def drop(self):
        """Close the connection without a response."""
        self.close_connection = True

    def log_message(self, *_arguments):
        """Log nothing."""


#: How endpoints fail: broken, busy, gone, cut off, replaced by a proxy's page.
FAULTS = (
    response(500, {"error": {"message": "The server had an error"}}),
    response(429, {"error": {"message": "Rate limit reached"}}),
    _Handler.drop,
    _Handler.break_off,
    response(200, '{"text": "on'),
    response(200, "<html><title>Sign in</title></html>", content_type="text/html"),
)


def _language_of(parts: list[Part]) -> str | None:
    return next((part.body.decode() for part in parts if part.name == "language"), None)


def _only_file(parts: list[Part]) -> Part:
    files = [part for part in parts if part.name == "file"]
    if len(files) != 1:
        raise BadRequest(f"expected one file, got {len(files)}")
    if not (files[0].filename or "").endswith(".wav") or files[0].content_type != "audio/wav":
        raise BadRequest(f"expected a .wav file, got {files[0].filename} {files[0].content_type}")
    return files[0]


def _check_fields(path, fields):
    if missing := sorted(REQUIRED - {"file"} - fields.keys()):
        raise BadRequest(f"missing fields: {', '.join(missing)}")
    granularities = fields.get("timestamp_granularities[]", [])
    if path.endswith("transcriptions") and sorted(granularities) != ["segment", "word"]:
        raise BadRequest(f"expected the granularities word and segment, got {granularities}")
    for name, values in fields.items():
        if name != "timestamp_granularities[]" and len(values) != 1:
            raise BadRequest(f"{name} occurs {len(values)} times")
        if not all(values):
            raise BadRequest(f"{name} is empty")
    if fields["response_format"] != ["verbose_json"]:
        raise BadRequest(f"expected verbose_json, got {fields['response_format']}")
    language = fields.get("language", ["en"])[0]
    if len(language) != 2 or language == "jw":
        raise BadRequest(f"expected a language in ISO-639-1, got {fields['language']}")
