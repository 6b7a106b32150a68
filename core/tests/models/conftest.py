"""A model hub on this machine's loopback, with the few endpoints the client asks for."""

from __future__ import annotations

import hashlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import json
import re
import threading
from urllib.parse import unquote, urlsplit

import pytest

from wlk_core import BackendSpec


class Hub:
    """Repositories by name, each a revision with its files; counts what is asked of it."""

    def __init__(self):
        self.repos = {}
        self.gated = set()
        self.requests = []
        self.ranges = []
        self.cut_after = None  # bytes of a file after which the hub is lost
        self.down = False
        self.garbled = False  # serve other bytes than were published
        self.url = ""

    def publish(self, repo, files, revision="a" * 40):
        """Publish *files* (name to bytes) as the newest revision of *repo*."""
        self.repos[repo] = (revision, files)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_arguments):
        """Stay silent."""

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        hub = self.server.hub
        if hub.down:
            self.close_connection = True
            return
        path = unquote(urlsplit(self.path).path)
        hub.requests.append((self.command, path))
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/revision/[^/]+)?", path):
            self.send_info(match[1])
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self.send_file(match[1], match[3])
        else:
            self.send_error_code(404, "EntryNotFound")

    def send_info(self, repo):
        hub = self.server.hub
        if repo in hub.gated:
            self.send_error_code(403, "GatedRepo")
        elif repo not in hub.repos:
            self.send_error_code(401, "RepoNotFound")
        else:
            revision, files = hub.repos[repo]
            siblings = [
                {
                    "rfilename": name,
                    "size": len(data),
                    "lfs": {
                        "sha256": hashlib.sha256(data).hexdigest(),
                        "size": len(data),
                        "pointerSize": 1,
                    },
                }
                for name, data in files.items()
            ]
            body = json.dumps({"id": repo, "sha": revision, "siblings": siblings}).encode()
            self.reply(200, body, {"Content-Type": "application/json"})

    def send_file(self, repo, name):
        hub = self.server.hub
        revision, files = hub.repos[repo]
        if name not in files:
            self.send_error_code(404, "EntryNotFound")
            return
        data = files[name]
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": revision}
        data = data[::-1] if hub.garbled else data
        start = 0
        if self.command == "GET" and (asked := self.headers.get("Range")):
            hub.ranges.append((name, asked))
            start = int(re.match(r"bytes=(\d+)-", asked)[1])
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self.reply(206 if start else 200, data[start:], headers)

    def send_error_code(self, status, code):
        self.reply(status, b"{}", {"X-Error-Code": code, "Content-Type": "application/json"})

    def reply(self, status, body, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = self.server.hub.cut_after
        if cut is not None and len(body) > cut:
            self.wfile.write(body[:cut])
            self.wfile.flush()
            self.close_connection = self.server.hub.down = True
            return
        self.wfile.write(body)


@pytest.fixture
def hub(monkeypatch):
    """Run an empty hub and point the client at it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.hub = Hub()
    server.hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", server.hub.url)
    yield server.hub
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Keep every cache of the test in its own folder; return the store's root."""
    monkeypatch.setenv("WLK_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return tmp_path / "store"


@pytest.fixture
def spec():
    """Return a backend with one model on the hub and a bundled one."""
    return BackendSpec(
        name="toy",
        api=1,
        summary="a toy",
        load=lambda model: model,
        models={"base": "acme/base", "digits": "bundled"},
        default_model="base",
        model_files=("config.json", "*.bin"),
    )
