"""Serve the files of the caption page, with headers that keep everything else out of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

__all__ = ["PAGE_HEADERS", "is_page", "page_routes"]

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


def page_routes() -> list[BaseRoute]:
    """Return the addresses of the page: ``/`` and its files below ``/page/``."""
    files = _Files(packages=[("wlk_serve", "page")])

    async def index(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)

    return [Route("/", index), Mount("/page", files)]


class _Files(StaticFiles):
    """Starlette's files with the headers of the page."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers.update(PAGE_HEADERS)
        return response
