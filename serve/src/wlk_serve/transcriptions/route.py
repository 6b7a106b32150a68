"""The endpoints that transcribe an uploaded recording."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeVar, cast

from starlette.responses import Response, StreamingResponse

from wlk_serve.errors import RequestError, as_request_error, invalid, shutdown_error
from wlk_serve.transcriptions.form import UploadForm
from wlk_serve.transcriptions.growing_file import GrowingFile
from wlk_serve.transcriptions.protocol import (
    Recognized,
    SpeakerLines,
    TranscriptionStream,
    parse_form,
    render,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import ExitStack

    from starlette.requests import Request

    from wlk_serve.http.body import Upload
    from wlk_serve.models.pool import ModelPool
    from wlk_serve.models.service import Service
    from wlk_serve.transcriptions.meter import UploadMeter
    from wlk_serve.transcriptions.protocol import Task, TranscriptionRequest
    from wlk_serve.transcriptions.recording import Result

__all__ = ["transcribe_upload"]

T = TypeVar("T")
_FEW_BYTES = 4096  # parsing more is left to a thread


async def transcribe_upload(
    http_request: Request,
    models: ModelPool,
    meter: UploadMeter,
    task: Task,
    *,
    upload: Upload,
    resources: ExitStack,
) -> Response:
    """
    Answer a request for a transcription or a translation.

    A recording whose `model` field precedes it is decoded while it arrives.

    Args:
        http_request: whose body was not read yet.
        models: one of them transcribes.
        meter: counts what the request uses.
        task: what is asked for.
        upload: what a shutdown ends.
        resources: closed when the response was sent, or an error raised.

    """
    async with AsyncExitStack() as stack:
        stack.enter_context(resources)
        stack.push(partial(_note_outcome, meter))
        file = GrowingFile()
        stack.callback(file.close)
        form = UploadForm(http_request.headers.get("content-type", ""), file.write)
        parts = upload.parts(http_request, meter.max_bytes, meter.use_bytes)
        await stack.enter_async_context(aclosing(parts))
        early_request = await _request_before_file(form, parts, models, task)
        job = None
        if early_request is not None:
            service = await models.lease(early_request.model, stack)
            job = await stack.enter_async_context(_Recognition(service, file, early_request, meter))
        async for data in parts:
            if len(data) > _FEW_BYTES:
                await asyncio.to_thread(form.feed, data)  # writes to the disk
            else:
                form.feed(data)
        form.finish()
        file.finish()
        request = _parsed_request(form, models, task)
        if not form.has_file:
            expected = "as a recording, in a form of type multipart/form-data"
            raise invalid("file", expected, code="missing_file")
        if not file.size:
            raise RequestError("the recording is empty", code="invalid_audio", param="file")
        if job is None or request != early_request:  # a field after the file
            if job is not None:
                await job.stop()
                file.seek(0)
            service = await models.lease(request.model, stack)
            job = await stack.enter_async_context(_Recognition(service, file, request, meter))
        headers = {"x-wlk-ignored": ", ".join(request.ignored)} if request.ignored else {}
        first = await _while_connected(http_request, upload, job.first)
        if request.streams:  # a recording without audio was refused with its status
            events = _events(request, first, job.results, meter, stack.pop_all())
            return StreamingResponse(events, media_type="text/event-stream", headers=headers)
        work = asyncio.ensure_future(_last(first, job.results))
        recognized = await _while_connected(http_request, upload, work)
        meter.figures.words += len(recognized.tokens)
        # In a thread: to write an hour of words takes longer than the event loop can wait.
        media_type, body = await asyncio.to_thread(render, request, recognized)
        return Response(body.encode("utf-8", "replace"), media_type=media_type, headers=headers)


class _Recognition:
    """
    A transcription that runs in a thread; a context manager that waits for its end.

    Leaving it aborts the file, because the thread may wait for bytes that will not come.
    """

    def __init__(
        self, service: Service, file: GrowingFile, request: TranscriptionRequest, meter: UploadMeter
    ) -> None:
        self._file = file
        meter.begin_audio()
        self.results = service.recognize(cast("BinaryIO", file), request, meter.use_audio)
        self.first = asyncio.ensure_future(anext(self.results))  # begins the work

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._file.abort()
        await self.stop()

    async def stop(self) -> None:
        """End the work; the file must be complete or aborted."""
        self.first.cancel()
        await asyncio.gather(self.first, return_exceptions=True)
        await self.results.aclose()


async def _request_before_file(
    form: UploadForm, parts: AsyncGenerator[bytes], models: ModelPool, task: Task
) -> TranscriptionRequest | None:
    """Read until the recording begins; return the request if its fields came before."""
    async for data in parts:
        form.feed(data)
        if form.has_file:
            names = {name for name, _ in form.fields}
            return _parsed_request(form, models, task) if "model" in names else None
    return None


def _parsed_request(form: UploadForm, models: ModelPool, task: Task) -> TranscriptionRequest:
    """Return the request of the fields that came, which the model of its name checks."""
    names = [text for name, text in form.fields if name.removesuffix("[]") == "model"]
    card = models.card(names[-1] if names and names[-1] else None)
    return parse_form(form.fields, card, task)


async def _while_connected(http_request: Request, upload: Upload, work: asyncio.Future[T]) -> T:
    """Return the result of *work*; a client that leaves ends it, and so does a shutdown."""
    left = asyncio.ensure_future(http_request.receive())  # after the body: the disconnect
    try:
        tasks: set[asyncio.Future[Any]] = {work, left, upload.closed}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        if upload.closed.done():
            raise shutdown_error()
        raise RequestError("the client left", status=499, code="client_closed_request")
    finally:
        for task in (work, left):
            task.cancel()
        await asyncio.gather(work, left, return_exceptions=True)


async def _last(first: Result, results: AsyncGenerator[Result]) -> Recognized:
    result = first
    async for result in results:  # noqa: B007 -- the last one counts
        pass
    if not isinstance(result, Recognized):
        raise RequestError("the transcription did not end", status=500, code="internal_error")
    return result


async def _events(
    request: TranscriptionRequest,
    first: Result,
    results: AsyncGenerator[Result],
    meter: UploadMeter,
    stack: AsyncExitStack,
) -> AsyncGenerator[str]:
    """Yield the server-sent events; *stack* is closed with them."""
    stream = TranscriptionStream(request)
    async with stack:
        try:
            yield _event(stream, first)
            async for result in results:
                if isinstance(result, Recognized):
                    meter.figures.words += len(result.tokens)
                    yield await asyncio.to_thread(_event, stream, result)  # has every word again
                else:
                    yield _event(stream, result)
        except Exception as error:  # noqa: BLE001 -- the status was sent: it becomes an event
            answer = as_request_error(error)
            meter.figures.metrics.count_error(answer)
            meter.outcome = str(answer.status)
            yield stream.failed(answer)


def _event(stream: TranscriptionStream, result: Result) -> str:
    match result:
        case Recognized():
            return stream.done(result)
        case SpeakerLines():
            return stream.segments(result)
    return stream.delta(result)


def _note_outcome(
    meter: UploadMeter, _kind: object, error: BaseException | None, _traceback: object
) -> None:
    """Remember the status of the answer; a task that is cancelled has no client any more."""
    if error is None and meter.outcome == "left":
        meter.outcome = "200"
    elif isinstance(error, Exception):
        meter.outcome = str(as_request_error(error).status)
