"""The endpoints that transcribe an uploaded recording."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING

from starlette.responses import Response, StreamingResponse

from wlk_serve.errors import RequestError, as_request_error
from wlk_serve.protocols.openai_rest import (
    Recognized,
    TranscriptionStream,
    parse_form,
    render,
)
from wlk_serve.uploads import read_form, uploaded_file

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.requests import Request

    from wlk_core.tokens import ASRToken
    from wlk_serve.protocols.openai_rest import Task, TranscriptionRequest
    from wlk_serve.service import Service
    from wlk_serve.sessions import Sessions

__all__ = ["transcribe_upload"]


async def transcribe_upload(
    request: Request, service: Service, sessions: Sessions, task: Task, max_bytes: int
) -> Response:
    """Answer a request for a transcription or a translation."""
    async with AsyncExitStack() as stack:
        stack.enter_context(sessions.entered())
        form = await read_form(request, max_bytes)
        stack.push_async_callback(form.close)
        fields = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        wish = parse_form(fields, service.card, task)
        file = uploaded_file(form).file
        headers = {"x-wlk-ignored": ", ".join(wish.ignored)} if wish.ignored else {}
        results = await stack.enter_async_context(aclosing(service.recognize(file, wish)))
        if wish.streams:
            first = await anext(results)  # a recording without audio is refused with its status
            events = _events(wish, first, results, stack.pop_all())
            return StreamingResponse(events, media_type="text/event-stream", headers=headers)
        recognized = await _whole(request, results)
        media_type, body = render(wish, recognized)
        return Response(body.encode("utf-8", "replace"), media_type=media_type, headers=headers)


async def _whole(
    request: Request, results: AsyncGenerator[tuple[ASRToken, ...] | Recognized]
) -> Recognized:
    """Return the last result; a client that leaves ends the work."""
    work = asyncio.ensure_future(_last(results))
    left = asyncio.ensure_future(request.receive())  # after the body comes the disconnect alone
    try:
        await asyncio.wait({work, left}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        raise RequestError("the client left", status=499, code="client_closed_request")
    finally:
        for task in (work, left):
            task.cancel()
        await asyncio.gather(work, left, return_exceptions=True)


async def _last(results: AsyncGenerator[tuple[ASRToken, ...] | Recognized]) -> Recognized:
    async for result in results:
        if isinstance(result, Recognized):
            return result
    raise RequestError("the transcription did not end", status=500, code="internal_error")


async def _events(
    request: TranscriptionRequest,
    first: tuple[ASRToken, ...] | Recognized,
    results: AsyncGenerator[tuple[ASRToken, ...] | Recognized],
    stack: AsyncExitStack,
) -> AsyncGenerator[str]:
    """Yield the server-sent events; *stack* is closed with them."""
    stream = TranscriptionStream(request)
    async with stack:
        try:
            yield _event(stream, first)
            async for result in results:
                yield _event(stream, result)
        except Exception as error:  # noqa: BLE001 -- the status was sent: it becomes an event
            yield stream.failed(as_request_error(error))


def _event(stream: TranscriptionStream, result: tuple[ASRToken, ...] | Recognized) -> str:
    return stream.done(result) if isinstance(result, Recognized) else stream.delta(result)
