"""The endpoints that transcribe an uploaded recording."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
import json
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from starlette.responses import Response, StreamingResponse

from wlk_serve.protocols import Handshake
from wlk_serve.transcriptions.protocol import parse_form
from wlk_serve.transcriptions.transcript import Transcript
from wlk_serve.transcriptions.upload import parse_upload, recording_of, spool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import AbstractContextManager

    from starlette.requests import Request

    from wlk_core.session.events import Event
    from wlk_serve.models.service import Service
    from wlk_serve.protocols import RecordingRoute
    from wlk_serve.transcriptions.protocol import Task
    from wlk_serve.transcriptions.upload import Upload

__all__ = ["transcribe_body", "transcribe_upload"]

_MEMORY_BYTES = 1 << 20  # of a recording; a larger one waits on disk


async def transcribe_upload(
    http_request: Request,
    service: Service,
    uploading: AbstractContextManager[Upload],
    task: Task,
) -> Response:
    """
    Answer a request for a transcription or a translation, whose body was not read yet.

    *uploading* counts what it uses, and ends when the response was sent or an error raised.
    """
    async with AsyncExitStack() as stack:
        upload = stack.enter_context(uploading)
        max_bytes = upload.limits.max_upload_bytes
        form = await upload.receiving(parse_upload(http_request, max_bytes))
        stack.push_async_callback(form.close)
        fields = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        request = parse_form(fields, service.card, task)
        file = recording_of(form).file
        events = service.recognize(file, request, upload.use_audio)
        await stack.enter_async_context(aclosing(events))
        transcript = Transcript(request, service.card.speaker_delay)
        headers = {"x-wlk-ignored": ", ".join(request.ignored)} if request.ignored else {}
        if request.streams:  # a recording without audio is refused with its status
            begun = await upload.while_connected(http_request, _begin(transcript, events))
            stream = _events(begun, transcript, events, upload, stack.pop_all())
            return StreamingResponse(stream, media_type="text/event-stream", headers=headers)
        await upload.while_connected(http_request, _finish(transcript, events, upload))
        # In a thread: to write an hour of words takes longer than the event loop can wait.
        media_type, body = await asyncio.to_thread(transcript.render)
        return Response(body.encode("utf-8", "replace"), media_type=media_type, headers=headers)


async def transcribe_body(
    http_request: Request,
    service: Service,
    uploading: AbstractContextManager[Upload],
    route: RecordingRoute,
) -> Response:
    """
    Answer a request whose body is a recording; the arguments are those of `transcribe_upload`.

    Raises:
        WLKError: the request is refused, or it failed.

    """
    async with AsyncExitStack() as stack:
        upload = stack.enter_context(uploading)
        asked = route.open(
            Handshake(
                headers=http_request.headers,
                query=http_request.query_params,
                subprotocols=(),
                secret=None,
                card=service.card.named,
            )
        )
        spooled = SpooledTemporaryFile(max_size=_MEMORY_BYTES)  # noqa: SIM115 -- of the stack
        file = cast("BinaryIO", stack.enter_context(spooled))
        await upload.receiving(spool(http_request, file, upload.limits.max_upload_bytes))
        events = service.recognize(file, asked.request, upload.use_audio)
        await stack.enter_async_context(aclosing(events))
        transcript = Transcript(asked.request)
        await upload.while_connected(http_request, _finish(transcript, events, upload))
        name, seconds = upload.figures.session_id, transcript.seconds
        body = await asyncio.to_thread(
            lambda: json.dumps(asked.answer(name, transcript.spoken_words(), seconds))
        )
        return Response(body.encode("utf-8", "replace"), media_type="application/json")


async def _begin(transcript: Transcript, events: AsyncGenerator[Event]) -> list[dict[str, Any]]:
    """Return the first server-sent events."""
    async for event in events:
        if records := transcript.add(event):
            return records
    return []


async def _finish(transcript: Transcript, events: AsyncGenerator[Event], upload: Upload) -> None:
    async for event in events:
        transcript.add(event)
    upload.figures.words += len(transcript.tokens)


async def _events(
    begun: list[dict[str, Any]],
    transcript: Transcript,
    events: AsyncGenerator[Event],
    upload: Upload,
    stack: AsyncExitStack,
) -> AsyncGenerator[str]:
    """Yield the server-sent events; *stack* is closed with them."""
    async with stack:
        try:
            if begun:
                yield _written(begun)
            async for event in events:
                if records := transcript.add(event):
                    yield _written(records)
            upload.figures.words += len(transcript.tokens)
            # It has every word again.
            yield await asyncio.to_thread(lambda: _written([transcript.done()]))
        except Exception as error:  # noqa: BLE001 -- the status was sent: it becomes an event
            answer = upload.figures.metrics.counted(error)
            upload.note(answer)
            yield _written([{"error": answer.record()}])  # which OpenAI's SDK raises


def _written(records: list[dict[str, Any]]) -> str:
    return "".join(f"data: {json.dumps(record)}\n\n" for record in records)
