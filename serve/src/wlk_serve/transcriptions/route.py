"""The endpoints that transcribe an uploaded recording."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeVar, cast

from starlette.responses import Response, StreamingResponse

from wlk_serve.errors import RequestError, as_request_error
from wlk_serve.http.body import Upload, receive_body
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

    from wlk_serve.models.models import Models
    from wlk_serve.models.service import Service
    from wlk_serve.transcriptions.protocol import Task, TranscriptionRequest
    from wlk_serve.transcriptions.recording import Result
    from wlk_serve.transcriptions.upload_record import UploadRecord

__all__ = ["transcribe_upload"]

T = TypeVar("T")
_FEW_BYTES = 4096  # parsing more is left to a thread


async def transcribe_upload(
    http_request: Request,
    models: Models,
    record: UploadRecord,
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
        record: counts what the request uses.
        task: what is asked for.
        upload: what a shutdown ends.
        resources: closed when the response was sent, or an error raised.

    """
    async with AsyncExitStack() as stack:
        stack.enter_context(resources)
        stack.push(partial(_note_outcome, record))
        file = GrowingFile()
        stack.callback(file.close)
        form = UploadForm(http_request.headers.get("content-type", ""), file)
        parts = receive_body(http_request, record.max_bytes, record.use_bytes, upload)
        await stack.enter_async_context(aclosing(parts))
        early_request = await _request_before_file(form, parts, models, task)
        job = None
        if early_request is not None:
            service = await models.lease(early_request.model, stack)
            job = await stack.enter_async_context(
                _Recognition(service, file, early_request, record)
            )
        await _feed(form, parts)
        form.finish()
        file.finish()
        request = _parsed_request(form, models, task)
        _check_file(form, file)
        if job is None or request != early_request:  # a field after the file
            if job is not None:
                await job.stop()
                file.seek(0)
            service = await models.lease(request.model, stack)
            job = await stack.enter_async_context(_Recognition(service, file, request, record))
        headers = {"x-wlk-ignored": ", ".join(request.ignored)} if request.ignored else {}
        first = await _while_connected(http_request, upload, job.first)
        if request.streams:  # a recording without audio was refused with its status
            events = _events(request, first, job.results, record, stack.pop_all())
            return StreamingResponse(events, media_type="text/event-stream", headers=headers)
        work = asyncio.ensure_future(_last(first, job.results))
        recognized = await _while_connected(http_request, upload, work)
        record.record.add_words(len(recognized.tokens))
        return await asyncio.to_thread(_response, request, recognized, headers)


def _response(
    request: TranscriptionRequest, recognized: Recognized, headers: dict[str, str]
) -> Response:
    """Write the answer; an hour of words takes longer than the event loop can wait."""
    media_type, body = render(request, recognized)
    return Response(body.encode("utf-8", "replace"), media_type=media_type, headers=headers)


class _Recognition:
    """
    A transcription that runs in a thread; a context manager that waits for its end.

    Leaving it aborts the file, because the thread may wait for bytes that will not come.
    """

    def __init__(
        self,
        service: Service,
        file: GrowingFile,
        request: TranscriptionRequest,
        record: UploadRecord,
    ) -> None:
        self._file = file
        self.results = service.recognize(cast("BinaryIO", file), request, record.begin_audio())
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
    form: UploadForm, parts: AsyncGenerator[bytes], models: Models, task: Task
) -> TranscriptionRequest | None:
    """Read until the recording begins; return the request if its fields came before."""
    async for data in parts:
        form.feed(data)
        if form.has_file:
            names = {name for name, _ in form.fields}
            return _parsed_request(form, models, task) if "model" in names else None
    return None


def _parsed_request(form: UploadForm, models: Models, task: Task) -> TranscriptionRequest:
    """Return the request of the fields that came, which the model of its name checks."""
    names = [text for name, text in form.fields if name.removesuffix("[]") == "model"]
    card = models.card(names[-1] if names and names[-1] else None)
    return parse_form(form.fields, card, task)


async def _feed(form: UploadForm, parts: AsyncGenerator[bytes]) -> None:
    async for data in parts:
        if len(data) > _FEW_BYTES:
            await asyncio.to_thread(form.feed, data)  # writes to the disk
        else:
            form.feed(data)


def _check_file(form: UploadForm, file: GrowingFile) -> None:
    if not form.has_file:
        raise RequestError(
            "expected `file`, a recording, in a form of type multipart/form-data",
            code="missing_file",
            param="file",
        )
    if not file.size:
        raise RequestError("the recording is empty", code="invalid_audio", param="file")


async def _while_connected(http_request: Request, upload: Upload, work: asyncio.Future[T]) -> T:
    """Return the result of *work*; a client that leaves ends it, and so does a shutdown."""
    left = asyncio.ensure_future(http_request.receive())  # after the body: the disconnect
    try:
        tasks: set[asyncio.Future[Any]] = {work, left, upload.closed}
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        if upload.closed.done():
            raise upload.shutdown_error()
        raise RequestError("the client left", status=499, code="client_closed_request")
    finally:
        for task in (work, left):
            task.cancel()
        await asyncio.gather(work, left, return_exceptions=True)


async def _last(
    first: Result,
    results: AsyncGenerator[Result],
) -> Recognized:
    if isinstance(first, Recognized):
        return first
    async for result in results:
        if isinstance(result, Recognized):
            return result
    raise RequestError("the transcription did not end", status=500, code="internal_error")


async def _events(
    request: TranscriptionRequest,
    first: Result,
    results: AsyncGenerator[Result],
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
                    yield await asyncio.to_thread(_event, stream, result)  # has every word again
                else:
                    yield _event(stream, result)
        except Exception as error:  # noqa: BLE001 -- the status was sent: it becomes an event
            answer = as_request_error(error)
            record.record.metrics.count_error(answer)
            record.outcome = str(answer.status)
            yield stream.failed(answer)


def _event(stream: TranscriptionStream, result: Result) -> str:
    match result:
        case Recognized():
            return stream.done(result)
        case SpeakerLines():
            return stream.segments(result)
    return stream.delta(result)


def _note_outcome(
    record: UploadRecord, _kind: object, error: BaseException | None, _traceback: object
) -> None:
    """Remember the status of the answer; a task that is cancelled has no client any more."""
    if error is None and record.outcome == "left":
        record.outcome = "200"
    elif isinstance(error, Exception):
        record.outcome = str(as_request_error(error).status)
