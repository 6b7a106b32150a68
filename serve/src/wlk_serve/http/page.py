"""Serve the files of the caption page, with headers that keep everything else out of it."""

from __future__ import annotations

from functools import lru_cache
import hashlib
from importlib import resources
from pathlib import PurePath
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

__all__ = ["PAGE_HEADERS", "is_page", "page_routes"]

_MEDIA_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
# Scripts, styles and connections of this server only, and none that are written into the page.
_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "worker-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
)
PAGE_HEADERS: Mapping[str, str] = {
    "cache-control": "no-cache",  # asked for by its tag: a new version of the server has a new page
    "content-security-policy": "; ".join(_POLICY),
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "microphone=(self), display-capture=(self), screen-wake-lock=(self)",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def is_page(path: str) -> bool:
    """Return whether a *path* belongs to the page, which holds no secret and needs no key."""
    return path == "/" or path.startswith("/page/")


def page_routes() -> list[Route]:
    """Return the addresses of the page: ``/`` and its files below ``/page/``."""
    return [Route("/", _answer), Route("/page/{name}", _answer)]


async def _answer(request: Request) -> Response:
    file = _files().get(request.path_params.get("name", "index.html"))
    if file is None:
        raise HTTPException(404)
    content, media_type, tag = file
    headers = {**PAGE_HEADERS, "etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=media_type)


@lru_cache(maxsize=1)
def _files() -> dict[str, tuple[bytes, str, str]]:
    """Return content, media type and tag of the files by name; no request reaches another file."""
    found = {}
    for path in (resources.files("wlk_serve") / "page").iterdir():
        media_type = _MEDIA_TYPES.get(PurePath(path.name).suffix)
        if media_type is not None:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[path.name] = content, media_type, tag
    return found
