"""Transcribe uploaded recordings: read the body within limits, and answer."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
import json
import reprlib
import secrets
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NoReturn, TypeVar, cast

from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.responses import Response, StreamingResponse

from wlk_live.audio import channel_count, is_recording
from wlk_live.channels import MAX_CHANNELS
from wlk_serve.errors import RequestError, as_request_error, invalid, shutdown_error
from wlk_serve.ops.metrics import SessionFigures
from wlk_serve.protocols.routes import Handshake
from wlk_serve.transcriptions.channels import render_channels
from wlk_serve.transcriptions.protocol import Transcript, parse_form

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Sequence
    from contextlib import AbstractContextManager

    from starlette.datastructures import FormData, Headers
    from starlette.requests import Request

    from wlk_serve.admission import Limits
    from wlk_serve.models.service import Service
    from wlk_serve.ops.metrics import Metrics
    from wlk_serve.protocols.options import Task, TranscriptionRequest
    from wlk_serve.protocols.routes import RecordingRoute

T = TypeVar("T")
_MEMORY_BYTES = 1 << 20  # a larger recording is spooled to disk
_WAIT_SECONDS = 30.0  # for the next part of the body; a proxy has to deal with slower clients
_STATUS_SECONDS = 1.0  # for a first event or an error, before the headers of a stream are sent
_COMMENT_SECONDS = 5.0  # between two comments of a stream that has no event to send
_MAGIC_BYTES = 12  # of a body, which tell a recording from samples
_MAX_FIELDS = 100
_MAX_FIELD_BYTES = 1 << 16  # per field, such as a prompt
_FILE = "file"
_UNUSED = {"known_speaker_references", "known_speaker_references[]"}  # megabytes of unused audio


async def transcribe_upload(
    http_request: Request,
    service: Service,
    uploading: AbstractContextManager[Upload],
    task: Task,
) -> Response:
    """
    Answer a request for a transcription or a translation whose body has not been read yet.

    *uploading* counts what the request uses, until the response is sent or an error is raised.
    """
    async with AsyncExitStack() as stack:
        upload = stack.enter_context(uploading)
        max_bytes = upload.limits.max_upload_bytes
        form = await upload.receive(parse_upload(http_request, max_bytes))
        stack.push_async_callback(form.close)
        fields = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        request = parse_form(fields, service.card, task)
        if request.is_multichannel:
            work = _channels(service, recording_of(form).file, request, upload)
            channels = await upload.while_connected(http_request, work)
            media_type, body = await asyncio.to_thread(
                render_channels,
                request,
                [each.tokens for each in channels],
                channels[0].seconds,
            )
            return _response(media_type, body, request)
        transcript = Transcript(request, service.card.speaker_delay)
        records = _records(service, recording_of(form).file, request, upload, transcript)
        await stack.enter_async_context(aclosing(records))
        if request.streams:
            first = asyncio.ensure_future(anext(records, None))
            stack.push_async_callback(_cancel, first)
            # An error that comes soon, such as one of decoding, still gets its status.
            await upload.while_connected(
                http_request, asyncio.wait({first}, timeout=_STATUS_SECONDS)
            )
            if first.done():
                first.result()
            stream = _events(first, records, transcript, upload, stack.pop_all())
            return StreamingResponse(
                stream, media_type="text/event-stream", headers=_headers(request)
            )
        await upload.while_connected(http_request, _exhaust(records))
        # In a thread, because writing an hour of words would block the event loop for too long.
        media_type, body = await asyncio.to_thread(transcript.render)
        return _response(media_type, body, request)


def _response(media_type: str, body: str, request: TranscriptionRequest) -> Response:
    encoded = body.encode("utf-8", "replace")
    return Response(encoded, media_type=media_type, headers=_headers(request))


def _headers(request: TranscriptionRequest) -> dict[str, str]:
    return {"x-wlk-ignored": ", ".join(request.ignored)} if request.ignored else {}


async def transcribe_body(
    http_request: Request,
    service: Service,
    uploading: AbstractContextManager[Upload],
    route: RecordingRoute,
) -> Response:
    """Answer a request whose body is a recording; for the arguments see `transcribe_upload`."""
    with uploading as upload, SpooledTemporaryFile(max_size=_MEMORY_BYTES) as spooled:
        request, answer = route.open(Handshake.of(http_request, service.card))
        file = cast("BinaryIO", spooled)
        limit = upload.limits.max_upload_bytes
        await upload.receive(_spool(http_request, file, limit, request.header))
        work = _channels(service, file, request, upload)
        channels = await upload.while_connected(http_request, work)
        name, seconds = upload.figures.session_id, channels[0].seconds
        words: Any = [transcript.spoken_words() for transcript in channels]
        if not request.is_multichannel:
            (words,) = words
        body = await asyncio.to_thread(lambda: json.dumps(answer(name, words, seconds)))
        return Response(body.encode("utf-8", "replace"), media_type="application/json")


async def _channels(
    service: Service, file: BinaryIO, request: TranscriptionRequest, upload: Upload
) -> list[Transcript]:
    """
    Return the transcript of each channel, or of their mean if one transcript is requested.

    The channels are transcribed one after another: the request stays one session for the engine.
    """
    channels: Sequence[int | None] = [None]
    if request.is_multichannel:
        count = await asyncio.to_thread(channel_count, file)
        if count > MAX_CHANNELS:
            raise invalid(_FILE, f"with at most {MAX_CHANNELS} channels", str(count))
        channels = range(count)
    transcripts = []
    for channel in channels:
        transcripts.append(Transcript(request, service.card.speaker_delay))
        records = _records(service, file, request, upload, transcripts[-1], channel=channel)
        async with aclosing(records):
            await _exhaust(records)
    return transcripts


async def _records(
    service: Service,
    file: BinaryIO,
    request: TranscriptionRequest,
    upload: Upload,
    transcript: Transcript,
    *,
    channel: int | None = None,
) -> AsyncGenerator[list[dict[str, Any]]]:
    """Fill *transcript*; yield the server-sent events of each step that has any."""
    async with aclosing(
        service.recognize(file, request, upload.use_audio, channel=channel)
    ) as events:
        async for event in events:
            if records := transcript.add(event):
                yield records
    upload.figures.words += len(transcript.tokens)


async def _exhaust(records: AsyncGenerator[object]) -> None:
    async for _ in records:
        pass


async def _events(
    pending: asyncio.Future[list[dict[str, Any]] | None],
    records: AsyncGenerator[list[dict[str, Any]]],
    transcript: Transcript,
    upload: Upload,
    stack: AsyncExitStack,
) -> AsyncGenerator[str]:
    """
    Yield the server-sent events, the first of which are *pending*; close *stack* after them.

    While there are none, comments keep proxies and clients from giving up.
    """
    async with stack:
        try:
            while True:
                while not pending.done():
                    await asyncio.wait({pending}, timeout=_COMMENT_SECONDS)
                    if not pending.done():
                        yield ": transcribing\n\n"
                if (found := pending.result()) is None:
                    break
                yield _serialized(found)
                pending = asyncio.ensure_future(anext(records, None))
            yield await asyncio.to_thread(lambda: _serialized([transcript.done()]))  # has all words
        except Exception as error:  # noqa: BLE001 -- the status was sent: it becomes an event
            answer = upload.figures.metrics.counted(error)
            upload.failure = answer
            yield _serialized([{"error": answer.record()}])  # OpenAI's SDK raises it
        finally:
            await _cancel(pending)


async def _cancel(future: asyncio.Future[Any]) -> None:
    """Cancel *future* and wait for its end, whatever its result."""
    future.cancel()
    await asyncio.wait({future})


def _serialized(records: list[dict[str, Any]]) -> str:
    return "".join(f"data: {json.dumps(record)}\n\n" for record in records)


class Upload:
    """
    A request with a recording, which a shutdown can end.

    In a shutdown, complete bodies are still transcribed; others get 503, on which clients retry.
    """

    def __init__(
        self, metrics: Metrics, limits: Limits, *, key_id: str = "", protocol: str = "rest"
    ) -> None:
        self.limits = limits
        self._ended, self._closed = asyncio.Event(), asyncio.Event()
        self.failure: RequestError | None = None  #: an error that was sent after the status
        self.figures = SessionFigures(
            metrics=metrics,
            protocol=protocol,
            session_id=f"req_{secrets.token_hex(12)}",
            key_id=key_id,
        )

    def end(self) -> None:
        """Stop reading the body."""
        self._ended.set()

    def close(self) -> None:
        """Abandon the transcription."""
        self._closed.set()

    async def receive(self, work: Awaitable[T]) -> T:
        """Return the result of *work*, which reads the body; after `end`, raise 503 instead."""
        return await _race(work, _wait_for_shutdown(self._ended))

    async def while_connected(self, request: Request, work: Awaitable[T]) -> T:
        """Return the result of *work*; cancel it and raise if the client leaves, or on `close`."""
        return await _race(work, _wait_for_shutdown(self._closed), _wait_for_disconnect(request))

    def use_audio(self, seconds: float) -> None:
        """Count decoded audio, in any thread; raise RequestError (413) above the limit."""
        max_seconds = self.limits.max_audio_seconds
        if self.figures.audio_seconds + seconds > max_seconds:
            raise RequestError(
                f"the recording is longer than {max_seconds:g} s; send it in parts",
                status=413,
                code="audio_too_long",
                param=_FILE,
            )
        self.figures.add_audio(seconds)

    def finish(self, error: BaseException | None) -> None:
        """Log the request with its status, or with "left" if *error* is a cancellation."""
        error = self.failure or error
        outcome = "200" if error is None else "left"
        if isinstance(error, Exception):
            outcome = str(as_request_error(error).status)
        self.figures.finish(outcome)


async def _race(*works: Awaitable[T]) -> T:
    """Return the result of the first of *works* to end, and cancel the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task.done()).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _wait_for_shutdown(event: asyncio.Event) -> NoReturn:
    await event.wait()
    raise shutdown_error()


async def _wait_for_disconnect(request: Request) -> NoReturn:
    await request.receive()  # once the body is complete, this returns on a disconnect
    raise RequestError("the client left", status=499, code="client_closed_request")


async def body_parts(request: Request, max_bytes: int) -> AsyncGenerator[bytes]:
    """
    Yield the parts of the body of *request*, which has not been read yet.

    Raises:
        RequestError: the body is too large (413), stops coming (408), or the client left (499).

    """
    too_large = RequestError(
        f"the upload is larger than {max_bytes / 1e6:g} MB", status=413, code="file_too_large"
    )
    length = request.headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length[:20]) > max_bytes:
        raise too_large
    received, has_more = 0, True
    while has_more:
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                message = await request.receive()
        except TimeoutError:
            reason = f"no byte of the body came for {_WAIT_SECONDS:.0f} s"
            raise RequestError(reason, status=408, code="timeout") from None
        if message["type"] == "http.disconnect":
            raise RequestError("the client left", status=499, code="client_closed_request")
        data: bytes = message.get("body", b"")
        received += len(data)
        if received > max_bytes:
            raise too_large
        has_more = message.get("more_body", False)
        yield data


class _NoFilename(MultiPartException):
    """The part with the recording has no filename, so it would be parsed as text."""


class _Parser(MultiPartParser):
    """Starlette's form parser, which also refuses incomplete forms and drops unused fields."""

    _is_over = False

    def __init__(self, headers: Headers, parts: AsyncGenerator[bytes]) -> None:
        super().__init__(
            headers,
            self._check_complete(parts),
            max_files=1,
            max_fields=_MAX_FIELDS,
            max_part_size=_MAX_FIELD_BYTES,
        )

    async def _check_complete(self, parts: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        async for part in parts:
            yield part
        if not self._is_over:
            raise MultiPartException("the form is incomplete")

    def on_headers_finished(self) -> None:
        super().on_headers_finished()
        if self._current_part.field_name == _FILE and self._current_part.file is None:
            raise _NoFilename("")

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._current_part.file is not None or self._current_part.field_name not in _UNUSED:
            super().on_part_data(data, start, end)

    def on_end(self) -> None:
        self._is_over = True


async def parse_upload(request: Request, max_bytes: int) -> FormData:
    """
    Return the form of *request*, for the caller to close; a large recording is on disk.

    Raises:
        RequestError: the body is not a form or is malformed (400), the disk is full (507), or as
            for `body_parts`.

    """
    parts = body_parts(request, max_bytes)
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data":
        async for _ in parts:
            pass  # some clients read the answer only after they have sent the whole body
        raise RequestError(
            "expected a form, with content-type: multipart/form-data; got "
            f"{reprlib.repr(kind.decode('latin-1'))}",
            code="invalid_content_type",
        )
    if not options.get(b"boundary"):
        raise _invalid("the header content-type has no boundary")
    try:
        return await _Parser(request.headers, parts).parse()
    except _NoFilename:
        expected = 'with a filename: Content-Disposition: form-data; name="file"; filename="a.wav"'
        raise invalid(_FILE, expected, code="missing_file") from None
    except (MultiPartException, OSError, ValueError) as error:  # ValueError: unknown charset
        problem = str(getattr(error, "message", error))
        raise (_storage_full(error) if isinstance(error, OSError) else _invalid(problem)) from error


async def _spool(request: Request, file: IO[bytes], max_bytes: int, header: bytes) -> None:
    async for part in _headed(body_parts(request, max_bytes), header):
        try:
            await asyncio.to_thread(file.write, part)
        except OSError as error:
            raise _storage_full(error) from error
    if not file.tell():
        raise RequestError("the recording is empty", code="invalid_audio", param=_FILE)
    file.seek(0)


async def _headed(parts: AsyncGenerator[bytes], header: bytes) -> AsyncGenerator[bytes]:
    """Yield *parts* after *header*, unless they begin with the header of a recording."""
    beginning = b""
    async for part in parts:
        beginning += part
        if len(beginning) >= _MAGIC_BYTES:
            break
    if beginning:
        yield beginning if is_recording(beginning) else header + beginning
    async for part in parts:
        yield part


def _storage_full(error: OSError) -> RequestError:
    message = f"the recording could not be stored: {error.strerror}"
    return RequestError(message, status=507, code="storage_full")


def recording_of(form: FormData) -> UploadFile:
    """Return the recording in a form; raise RequestError if it is missing or empty."""
    files = [(name, value) for name, value in form.multi_items() if isinstance(value, UploadFile)]
    if not files:
        expected = "as a recording, in a form of type multipart/form-data"
        raise invalid(_FILE, expected, code="missing_file")
    name, file = files[0]
    if name != _FILE:
        raise _invalid(f"a file called {name[:100]!r}")
    if not file.size:
        raise RequestError("the recording is empty", code="invalid_audio", param=_FILE)
    return file


def _invalid(problem: str) -> RequestError:
    return RequestError(
        f"expected a form with one file, called {_FILE} and up to {_MAX_FIELDS} fields: {problem}",
        code="invalid_form",
    )
