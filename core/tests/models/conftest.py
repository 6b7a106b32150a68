"""A model hub on this machine's loopback, with the few endpoints that the client uses."""

from __future__ import annotations

import hashlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import json
import re
import threading
from urllib.parse import unquote, urlsplit

from huggingface_hub import constants
import pytest

from wlk_core import BackendSpec
from wlk_core.models import locate

REVISION = "a" * 40


class Hub:
    """Repositories by name, each a revision with its files; records every request."""

    def __init__(self):
        self.repos = {}
        self.requests = []
        self.gated = set()
        self.answer = None  # status, headers and body of every answer of the API
        self.file_answer = None  # the same for every answer about a file

    def publish(self, repo, files, revision=REVISION):
        """Publish *files* (name to bytes) as the newest revision of *repo*."""
        self.repos[repo] = (revision, files)

    def fetched(self):
        """Return the names of the files whose content was sent, one for each request."""
        return [
            path.partition(f"/resolve/{REVISION}/")[2]
            for method, path in self.requests
            if method == "GET" and "/resolve/" in path
        ]


def blob_id(data):
    """Return git's name for a file of these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()  # noqa: S324 -- git's choice


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
        path = unquote(urlsplit(self.path).path)
        hub.requests.append((self.command, path))
        if path.startswith("/api/"):
            self.answer_api(path)
        elif hub.file_answer is not None:
            self.reply(*hub.file_answer)
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self.send_file(match[1], match[3])
        else:
            self.send_error_code(404, "EntryNotFound")

    def answer_api(self, path):
        hub = self.server.hub
        match = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/[^/]+)?", path)
        if hub.answer is not None:
            self.reply(*hub.answer)
        elif not match or match[1] not in hub.repos:
            self.send_error_code(401, "RepoNotFound")
        elif match[1] in hub.gated:
            self.send_error_code(403, "GatedRepo")
        elif match[2] == "tree":
            self.send_tree(match[1])
        else:
            self.send_info(match[1])

    def send_info(self, repo):
        hub = self.server.hub
        revision, files = hub.repos[repo]
        siblings = [self.sibling(name, data) for name, data in files.items()]
        self.send_json({"id": repo, "sha": revision, "siblings": siblings})

    def sibling(self, name, data):
        return {"rfilename": name, "size": len(data), "blobId": blob_id(data)}

    def send_tree(self, repo):
        _, files = self.server.hub.repos[repo]
        self.send_json(
            [
                {"type": "file", "path": name, "size": len(data), "oid": blob_id(data)}
                for name, data in files.items()
            ]
        )

    def send_file(self, repo, name):
        revision, files = self.server.hub.repos[repo]
        if name not in files:
            self.send_error_code(404, "EntryNotFound")
            return
        headers = {"ETag": f'"{blob_id(files[name])}"', "X-Repo-Commit": revision}
        self.reply(200, headers, files[name])

    def send_error_code(self, status, code):
        self.reply(status, {"X-Error-Code": code, "Content-Type": "application/json"}, b"{}")

    def send_json(self, content):
        self.reply(200, {"Content-Type": "application/json"}, json.dumps(content).encode())

    def reply(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def hub(monkeypatch):
    """Run an empty hub and point the client at it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.hub = Hub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "ENDPOINT", url)
    yield server.hub
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Keep the caches and records of the test in its own folder; return the hub's cache."""
    monkeypatch.setenv("WLK_HOME", str(tmp_path / "wlk"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hf" / "hub"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return tmp_path / "hf" / "hub"


@pytest.fixture
def spec():
    """Return a backend with one model on the hub and a bundled one."""
    return BackendSpec(
        name="toy",
        api=1,
        summary="a toy",
        load="wlk_toy.backend:load",
        models={"base": "acme/base", "digits": "bundled"},
        default_model="base",
        model_files=("config.json", "*.bin"),
    )


@pytest.fixture
def lay_out(cache):
    """Return a function that lays out files as another tool does, and returns the snapshot."""

    def write(files, *, repo="acme/base", revision="b" * 40, is_main=True):
        folder = cache / f"models--{repo.replace('/', '--')}"
        snapshot = folder / "snapshots" / revision
        (folder / "blobs").mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            blob = folder / "blobs" / blob_id(data)
            blob.write_bytes(data)
            pointer = snapshot / name
            pointer.parent.mkdir(parents=True, exist_ok=True)
            pointer.symlink_to(f"{'../' * (2 + name.count('/'))}blobs/{blob.name}")
        if is_main:
            (folder / "refs").mkdir(exist_ok=True)
            (folder / "refs" / "main").write_text(revision)
        return snapshot

    return write


@pytest.fixture
def locate_offline(monkeypatch):
    """Return `locate` as it works while HF_HUB_OFFLINE is set."""

    def locate_without_network(ref, **options):
        with monkeypatch.context() as patch:
            patch.setenv("HF_HUB_OFFLINE", "1")
            return locate(ref, **options)

    return locate_without_network


@pytest.fixture
def refuse_network(monkeypatch):
    """Return a function after whose call an attempt to open a connection fails loudly."""

    def refuse(*_arguments, **_options):
        raise AssertionError("the network was touched")

    def begin():
        monkeypatch.setattr("socket.socket.connect", refuse)
        monkeypatch.setattr("socket.getaddrinfo", refuse)

    return begin


@pytest.fixture
def no_network(refuse_network):
    """Let any attempt to open a connection fail loudly."""
    refuse_network()
