"""The endpoints that transcribe an uploaded recording."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, cast

from starlette.responses import Response, StreamingResponse

from wlk_serve.errors import as_request_error
from wlk_serve.transcriptions.protocol import (
    Recognized,
    SpeakerLines,
    TranscriptionStream,
    parse_form,
    render,
)
from wlk_serve.transcriptions.upload import recording_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import ExitStack

    from starlette.requests import Request

    from wlk_serve.models.service import Service
    from wlk_serve.transcriptions.protocol import Task, TranscriptionRequest
    from wlk_serve.transcriptions.recording import Result
    from wlk_serve.transcriptions.upload import Upload

__all__ = ["transcribe_upload"]


async def transcribe_upload(
    http_request: Request, service: Service, upload: Upload, task: Task, *, resources: ExitStack
) -> Response:
    """
    Answer a request for a transcription or a translation.

    Args:
        http_request: whose body was not read yet.
        service: transcribes it.
        upload: counts what the request uses; a shutdown ends it.
        task: what is asked for.
        resources: closed when the response was sent, or an error raised.

    """
    async with AsyncExitStack() as stack:
        stack.enter_context(resources)
        stack.push(lambda _kind, error, _traceback: upload.note(error))
        form = await upload.form(http_request)
        stack.push_async_callback(form.close)
        fields = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        request = parse_form(fields, service.card, task)
        file = recording_of(form).file
        results = service.recognize(file, request, upload.use_audio)
        await stack.enter_async_context(aclosing(results))
        headers = {"x-wlk-ignored": ", ".join(request.ignored)} if request.ignored else {}
        first = await upload.while_connected(http_request, anext(results))
        if request.streams:  # a recording without audio was refused with its status
            events = _events(request, first, results, upload, stack.pop_all())
            return StreamingResponse(events, media_type="text/event-stream", headers=headers)
        recognized = await upload.while_connected(http_request, _last(first, results))
        upload.figures.words += len(recognized.tokens)
        # In a thread: to write an hour of words takes longer than the event loop can wait.
        media_type, body = await asyncio.to_thread(render, request, recognized)
        return Response(body.encode("utf-8", "replace"), media_type=media_type, headers=headers)


async def _last(first: Result, results: AsyncGenerator[Result]) -> Recognized:
    result = first
    async for result in results:  # noqa: B007 -- the last one counts
        pass
    return cast("Recognized", result)


async def _events(
    request: TranscriptionRequest,
    first: Result,
    results: AsyncGenerator[Result],
    upload: Upload,
    stack: AsyncExitStack,
) -> AsyncGenerator[str]:
    """Yield the server-sent events; *stack* is closed with them."""
    stream = TranscriptionStream(request)
    async with stack:
        try:
            yield _event(stream, first)
            async for result in results:
                if isinstance(result, Recognized):
                    upload.figures.words += len(result.tokens)
                    yield await asyncio.to_thread(_event, stream, result)  # has every word again
                else:
                    yield _event(stream, result)
        except Exception as error:  # noqa: BLE001 -- the status was sent: it becomes an event
            answer = as_request_error(error)
            upload.figures.metrics.count_error(answer)
            upload.note(answer)
            yield stream.failed(answer)


def _event(stream: TranscriptionStream, result: Result) -> str:
    match result:
        case Recognized():
            return stream.done(result)
        case SpeakerLines():
            return stream.segments(result)
    return stream.delta(result)
