"""One request with a recording: its form, what it uses, and what ends it early."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import IO, TYPE_CHECKING, NoReturn, TypeVar

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from wlk_serve.errors import RequestError, as_request_error, invalid, shutdown_error
from wlk_serve.http.body import body_parts
from wlk_serve.ops.metrics import SessionFigures

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable

    from starlette.datastructures import Headers
    from starlette.requests import Request

    from wlk_serve.ops.limits import Limits, Usage
    from wlk_serve.ops.metrics import Metrics

__all__ = ["Upload", "parse_upload", "recording_of", "spool"]

T = TypeVar("T")
_MAX_FIELDS = 100
_MAX_FIELD_BYTES = 1 << 20  # of all fields together: prompts and keywords
_FILE = "file"
_UNUSED = {"known_speaker_references", "known_speaker_references[]"}  # megabytes that nothing reads


class Upload:
    """
    A request with a recording, which a shutdown may end.

    A complete body is still transcribed; another one gets 503, with which clients try again.
    """

    def __init__(
        self, metrics: Metrics, limits: Limits, usage: Usage, key_id: str, protocol: str = "rest"
    ) -> None:
        self.limits = limits
        self._usage = usage
        self._ended, self._closed = asyncio.Event(), asyncio.Event()
        self._outcome = "left"  # a status, for the log
        self.figures = SessionFigures(
            metrics, protocol=protocol, session_id=f"req_{secrets.token_hex(12)}", key_id=key_id
        )

    def end(self) -> None:
        """Take no more of the body."""
        self._ended.set()

    def close(self) -> None:
        """Give the transcription up."""
        self._closed.set()

    async def receiving(self, work: Awaitable[T]) -> T:
        """Return the result of *work*, which reads the body; raises what it does, or 503."""
        return await _first(work, _shut_down(self._ended))

    async def while_connected(self, request: Request, work: Awaitable[T]) -> T:
        """Return the result of *work*; a client that leaves ends it, and so does a shutdown."""
        return await _first(work, _shut_down(self._closed), _left(request))

    def use_audio(self, seconds: float) -> None:
        """
        Count decoded audio; may be called from any thread.

        Raises:
            RequestError: the recording is too long (413), or nothing is left of a budget (429).

        """
        max_seconds = self.limits.max_audio_seconds
        if self.figures.audio_seconds + seconds > max_seconds:
            raise RequestError(
                f"the recording is longer than {max_seconds:g} s; send it in parts",
                status=413,
                code="audio_too_long",
                param=_FILE,
            )
        self._usage.use(self.figures.key_id, time.monotonic(), seconds)
        self.figures.add_audio(seconds)

    def note(self, error: BaseException | None) -> None:
        """Remember the status of the answer; a task that is cancelled has no client any more."""
        if isinstance(error, Exception):
            self._outcome = str(as_request_error(error).status)
        elif error is None and self._outcome == "left":
            self._outcome = "200"

    def finish(self, error: BaseException | None) -> None:
        """Log the line of the request, which ends because of *error*."""
        self.note(error)
        self.figures.finish(self._outcome)


async def _first(*works: Awaitable[T]) -> T:
    """Return the result of the work that ends first, and cancel the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task.done()).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _shut_down(event: asyncio.Event) -> NoReturn:
    await event.wait()
    raise shutdown_error()


async def _left(request: Request) -> NoReturn:
    await request.receive()  # after the body: the disconnect
    raise RequestError("the client left", status=499, code="client_closed_request")


class _Parser(MultiPartParser):
    """Starlette's parser of forms that end, whose fields are bounded together."""

    def __init__(self, headers: Headers, parts: AsyncGenerator[bytes]) -> None:
        super().__init__(headers, self._whole(parts), max_files=1, max_fields=_MAX_FIELDS)
        self._field_bytes = 0
        self._is_over = False

    async def _whole(self, parts: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        async for part in parts:
            yield part
        if not self._is_over:
            raise MultiPartException("the form ends in the middle")

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._current_part.file is None:
            if self._current_part.field_name in _UNUSED:
                return
            self._field_bytes += end - start
            if self._field_bytes > _MAX_FIELD_BYTES:
                raise MultiPartException(f"fields of more than {_MAX_FIELD_BYTES} bytes")
        super().on_part_data(data, start, end)

    def on_end(self) -> None:
        self._is_over = True


async def parse_upload(request: Request, max_bytes: int) -> FormData:
    """
    Return the form of *request*, whose owner closes it; its recording waits on disk.

    It is empty for a body of another type.

    Raises:
        RequestError: it is malformed (400), or as `body_parts` says.

    """
    parts = body_parts(request, max_bytes)
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data":
        async for _ in parts:
            pass  # the missing model is reported
        return FormData()
    if not options.get(b"boundary"):
        raise _invalid("the header content-type has no boundary")
    try:
        return await _Parser(request.headers, parts).parse()
    except (MultiPartException, ValueError) as error:  # ValueError: of a charset
        raise _invalid(str(getattr(error, "message", error))) from error


async def spool(request: Request, file: IO[bytes], max_bytes: int) -> None:
    """
    Write the body of *request*, a recording, to *file*, and go to its beginning.

    Raises:
        RequestError: it is empty (400), or as `body_parts` says.

    """
    async for part in body_parts(request, max_bytes):
        await asyncio.to_thread(file.write, part)
    if not file.tell():
        raise RequestError("the recording is empty", code="invalid_audio", param=_FILE)
    file.seek(0)


def recording_of(form: FormData) -> UploadFile:
    """
    Return the recording of a form.

    Raises:
        RequestError: there is none, it has another name, or it is empty.

    """
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


def _invalid(found: str) -> RequestError:
    return RequestError(
        f"expected a form of one file called {_FILE} and up to {_MAX_FIELDS} fields: {found}",
        code="invalid_form",
    )
