"""The HTTP client: it reads answers up to a limit, and no longer than a call lasts."""

from __future__ import annotations

from typing import Any

import openai

from wlk_whisper.openai_api.call_limits import (
    MAX_ANSWER_BYTES,
    MAX_ERROR_BYTES,
    bound_connections,
)
from wlk_whisper.openai_api.response import ResponseError

__all__ = ["BoundedHttpClient"]

# Each of these expands a block of 64 KB to 66 MB at most.  Others have no such bound.
ENCODINGS = ("gzip", "deflate")
# Headers that describe the body as it was sent; the character set of JSON is UTF-8.
OF_THE_BODY = ("content-encoding", "content-length", "transfer-encoding")


class BoundedHttpClient(openai.DefaultHttpxClient):
    """
    The official client's HTTP client, for answers of which nothing is trusted.

    An answer is read before `send` returns, decompressed, up to MAX_ANSWER_BYTES.  Of an error or a
    redirect the first MAX_ERROR_BYTES are read.
    """

    def __init__(self, **options: Any) -> None:
        headers = {"Accept-Encoding": ", ".join(ENCODINGS)}
        super().__init__(follow_redirects=False, headers=headers, **options)
        bound_connections(self)

    def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
        """
        Send a request and return the whole response.

        Raises:
            ResponseError: the answer is too long, or compressed in another way than requested.

        """
        del stream  # the body is read here in any case
        response = super().send(request, stream=True, **options)
        try:
            body = _body(response)
        finally:
            response.close()
        headers = response.headers.copy()
        for name in OF_THE_BODY:
            headers.pop(name, None)
        if "content-type" in headers:
            headers["content-type"] = headers["content-type"].partition(";")[0]
        return type(response)(
            response.status_code,
            headers=headers,
            content=body,
            request=response.request,
            extensions=response.extensions,
        )


def _body(response: Any) -> bytes:
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", *ENCODINGS}:
        raise ResponseError(
            f"expected an answer without compression or as gzip or deflate, got {encoding[:60]!r}; "
            "configure the server or its proxy"
        )
    limit = MAX_ANSWER_BYTES if response.is_success else MAX_ERROR_BYTES
    body = bytearray()
    for block in response.iter_bytes():
        body += block
        if len(body) > limit:
            if not response.is_success:
                return bytes(body[:limit])
            raise ResponseError(
                f"expected an answer of at most {limit} bytes, got more; check that base_url is "
                "that of a transcription endpoint: --option base_url=URL"
            )
    return bytes(body)
