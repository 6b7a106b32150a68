"""A model hub on the loopback interface, with the few endpoints that the client uses."""

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
    """Repositories by name, each with one revision and its files; records every file it sends."""

    def __init__(self):
        self.repos = {}
        self.sent = []
        self.answer = None  # status, headers and body of every API response
        self.file_answer = None  # the same for every response about a file

    def publish(self, repo, files, revision=REVISION):
        """Publish *files* (name to bytes) as the newest revision of *repo*."""
        self.repos[repo] = (revision, files)


def blob_id(data):
    """Return git's object name for a file of these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()  # noqa: S324 -- git's choice


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_arguments):
        """Stay silent."""

    def do_GET(self):
        """Respond about a repository, its tree or a file."""
        hub, path = self.server.hub, unquote(urlsplit(self.path).path)
        model = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/[^/]+)?", path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path)
        answer = hub.answer if model else hub.file_answer
        if answer is not None:
            self.reply(*answer)
        elif model and model[1] in hub.repos:
            revision, files = hub.repos[model[1]]
            rows = [
                {"type": "file", "path": name, "rfilename": name, "size": len(data),
                 "oid": blob_id(data), "blobId": blob_id(data)}
                for name, data in files.items()
            ]  # fmt: skip
            info = {"id": model[1], "sha": revision, "siblings": rows}
            self.send_json(200, rows if model[2] == "tree" else info)
        elif file and file[2] in hub.repos.get(file[1], ("", {}))[1]:
            revision, files = hub.repos[file[1]]
            data = files[file[2]]
            hub.sent += [file[2]] * (self.command == "GET")
            self.reply(200, {"ETag": f'"{blob_id(data)}"', "X-Repo-Commit": revision}, data)
        else:
            self.send_json(404, {}, code="EntryNotFound" if file else "RepoNotFound")

    def do_HEAD(self):
        """Respond as `do_GET`, without content."""
        self.do_GET()

    def send_json(self, status, content, *, code=""):
        """Send a JSON response of the API."""
        headers = {"X-Error-Code": code, "Content-Type": "application/json"}
        self.reply(status, headers, json.dumps(content).encode())

    def reply(self, status, headers, body):
        """Send a response."""
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
    """Keep the caches of the test in its own folder; return the hub's cache."""
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
    """Return a function that lays out files as other tools do and returns the snapshot."""

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
    """Return a function that makes every later attempt to open a connection fail."""

    def refuse(*_arguments, **_options):
        raise AssertionError("the network was touched")

    def begin():
        monkeypatch.setattr("socket.socket.connect", refuse)
        monkeypatch.setattr("socket.getaddrinfo", refuse)

    return begin


@pytest.fixture
def no_network(refuse_network):
    """Make every attempt to open a connection fail."""
    refuse_network()
