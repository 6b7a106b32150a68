"""The caption page over HTTP: which files are served, to whom, and with which headers."""

from __future__ import annotations

import asyncio
from pathlib import Path
import re

import pytest

from wlk_serve.app import Server
from wlk_serve.http.admission import Admission
from wlk_serve.http.page import PAGE_HEADERS
from wlk_serve.ops.metrics import Metrics

PAGE = Path(__file__).parents[2] / "src/wlk_serve/page"
NAMES = sorted(path.name for path in PAGE.iterdir() if path.is_file())


class FakeService:
    """A service without a model, of which the page needs nothing."""

    def __init__(self, card):
        self.card = card
        self.metrics = Metrics()
        self.lateness = 0.0


@pytest.fixture
def get(card):
    """Return a function that asks the application of a server with a key for a path."""
    server = Server(FakeService(card), admission=Admission.of(["secret"], [], is_local=True))

    def get(path, method="GET", **headers):
        sent = []

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            sent.append(message)

        names = {"host": "127.0.0.1:8000", **headers}
        scope = {
            "type": "http",
            "asgi": {"spec_version": "2.4"},  # a server that reports a client that left
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [
                (name.replace("_", "-").encode(), text.encode()) for name, text in names.items()
            ],
            "server": ("127.0.0.1", 8000),
            "client": ("127.0.0.1", 50_000),
        }
        asyncio.run(server.app(scope, receive, send))
        start, *bodies = sent
        found = {name.decode(): text.decode() for name, text in start["headers"]}
        return start["status"], found, b"".join(part["body"] for part in bodies)

    return get


def test_the_page_needs_no_key(get):
    """It holds no secret; what it asks the server for does need the key."""
    status, headers, body = get("/")

    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert body == (PAGE / "index.html").read_bytes()
    assert get("/v1/models")[0] == 401


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_served_with_its_type_and_the_headers(get, name):
    """Nothing is run, loaded or asked that is not of this server."""
    status, headers, body = get(f"/page/{name}")

    assert status == 200
    assert body == (PAGE / name).read_bytes()
    assert re.fullmatch(
        r"(text/(css|html)|(text|application)/javascript|image/svg\+xml).*", headers["content-type"]
    )
    assert PAGE_HEADERS.items() <= headers.items()


def test_scripts_and_styles_come_from_files_only():
    """The policy forbids them in the page, and names no other site."""
    policy = dict(
        part.strip().split(" ", 1) for part in PAGE_HEADERS["content-security-policy"].split(";")
    )

    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in PAGE_HEADERS["content-security-policy"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_names_no_other_site(name):
    """The page works without any network but the way to its server."""
    text = (PAGE / name).read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")

    assert [] == re.findall(r"https?://[\w.]+|innerHTML|eval\(", text)


def test_a_file_that_the_browser_has_is_not_sent_again(get):
    """The tag changes with the content."""
    _, headers, _ = get("/page/main.js")
    status, _, body = get("/page/main.js", if_none_match=headers["etag"])

    assert (status, body) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/page/", "/page/../app.py", "/page/%2e%2e%2fapp.py", "/page/none.js", "/page/a/b.js"]
)
def test_no_other_file_is_served(get, path):
    """Names are looked up among the files of the page."""
    assert get(path)[0] == 404
