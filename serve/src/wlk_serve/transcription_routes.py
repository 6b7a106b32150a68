"""The endpoints that transcribe an uploaded recording."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from functools import partial
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
    from contextlib import ExitStack

    from starlette.requests import Request

    from wlk_core.tokens import ASRToken
    from wlk_serve.protocols.openai_rest import Task, TranscriptionRequest
    from wlk_serve.service import Service
    from wlk_serve.upload_record import UploadRecord

__all__ = ["transcribe_upload"]


async def transcribe_upload(
    request: Request, service: Service, record: UploadRecord, task: Task, count: ExitStack
) -> Response:
    """
    Answer a request for a transcription or a translation.

    Args:
        request: whose body was not read yet.
        service: transcribes.
        record: counts what the request uses.
        task: what is asked for.
        count: closed when the response was sent, or an error raised.

    """
    async with AsyncExitStack() as stack:
        stack.enter_context(count)
        stack.push(partial(_note_outcome, record))
        form = await read_form(request, record.max_bytes, record.use_bytes)
        stack.push_async_callback(form.close)
        fields = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        wish = parse_form(fields, service.card, task)
        file = uploaded_file(form).file
        recognition = service.recognize(file, wish, record.use_audio)
        headers = {"x-wlk-ignored": ", ".join(wish.ignored)} if wish.ignored else {}
        results = await stack.enter_async_context(aclosing(recognition))
        if wish.streams:
            first = await anext(results)  # a recording without audio is refused with its status
            events = _events(wish, first, results, record, stack.pop_all())
            return StreamingResponse(events, media_type="text/event-stream", headers=headers)
        recognized = await _whole(request, results)
        record.record.add_words(len(recognized.tokens))
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
    record: UploadRecord,
    stack: AsyncExitStack,
) -> AsyncGenerator[str]:
    """Yield the server-sent events; *stack* is closed with them."""
    stream = TranscriptionStream(request)
    async with stack:
        try:
            yield _event(stream, first)
            async for result in results:
                if isinstance(result, Recognized):
                    record.record.add_words(len(result.tokens))
                yield _event(stream, result)
        except Exception as error:  # noqa: BLE001 -- the status was sent: it becomes an event
            answer = as_request_error(error)
            record.record.metrics.count_error(answer)
            record.outcome = str(answer.status)
            yield stream.failed(answer)


def _event(stream: TranscriptionStream, result: tuple[ASRToken, ...] | Recognized) -> str:
    return stream.done(result) if isinstance(result, Recognized) else stream.delta(result)


def _note_outcome(
    record: UploadRecord, _kind: object, error: BaseException | None, _traceback: object
) -> None:
    """Remember the status of the answer; a task that is cancelled has no client any more."""
    if error is None and record.outcome == "left":
        record.outcome = "200"
    elif isinstance(error, Exception):
        record.outcome = str(as_request_error(error).status)
