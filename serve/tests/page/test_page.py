"""The caption page over HTTP: its files, who gets them, and their headers."""

from __future__ import annotations

from pathlib import Path
import re

import pytest

from wlk_core.registry import Registry
from wlk_serve.app import PAGE_HEADERS

PAGE = Path(__file__).parents[2] / "src/wlk_serve/page"
NAMES = sorted(path.name for path in PAGE.iterdir() if path.is_file())


@pytest.fixture(scope="module")
def get(serve, fetch):
    """Return a function that requests a path from a server with a key, by default with the key."""
    registry = Registry()
    with (
        registry.load_backend("scripted") as backend,
        serve((backend, registry.spec("scripted")), name=None) as (address, _),
    ):
        yield lambda path, **headers: fetch(address, "GET", path, **headers)


def test_the_page_needs_no_key(get):
    """The page holds no secret, but its requests to the server need the key."""
    status, body, headers = get("/", x_api_key="")

    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert body == (PAGE / "index.html").read_text(encoding="utf-8")
    assert get("/v1/models", x_api_key="")[0] == 401


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_served_with_its_type_and_the_headers(get, name):
    """The page runs, loads and requests nothing from other servers."""
    status, body, headers = get(f"/page/{name}")

    assert status == 200
    assert body == (PAGE / name).read_text(encoding="utf-8")
    assert re.fullmatch(
        r"(text/(css|html)|(text|application)/javascript|image/svg\+xml).*", headers["content-type"]
    )
    assert PAGE_HEADERS.items() <= headers.items()
