"""The address ``/v1/realtime``: who may open a session, who may resume one, and its WebSocket."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
import json
import logging
from typing import TYPE_CHECKING

from starlette.websockets import WebSocketDisconnect

from wlk_core.errors import WLKError
from wlk_serve.errors import as_request_error, error_response, invalid
from wlk_serve.realtime.config import default_config, model_name, update_config
from wlk_serve.realtime.resume import parse_last_seq, resume_expired
from wlk_serve.realtime.session import BROKEN, OVERLOADED, RealtimeSession

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from wlk_serve.errors import RequestError
    from wlk_serve.http.admission import Admission
    from wlk_serve.models.pool import ModelPool
    from wlk_serve.models.service import Service
    from wlk_serve.ops.limits import Limits, Usage
    from wlk_serve.ops.running import RunningSessions
    from wlk_serve.realtime.config import RealtimeConfig
    from wlk_serve.realtime.send_queue import SendQueue

__all__ = ["RealtimeRoute", "serve_session"]

_LOGGER = logging.getLogger(__name__)

_EXPIRED = 4404  # close code of a session that cannot be resumed
_NEW = "1"  # asks for a token
_SUBPROTOCOL = "realtime"  # which browsers need
_RESUME = "wlk-resume."  # the beginning of the subprotocol that is a token
_LEFT = (OSError, RuntimeError, WebSocketDisconnect)  # what sending to a client that left raises
_LOST = 1006  # the close code of a socket that ended without one
_SEND_SECONDS = 10.0  # for one message
# Of audio, before the socket is no longer read.  A client that sends a recording at once may ping,
# and give up after 20 s without an answer, because its ping waits unread after its audio.  One more
# append of 15 MiB is below what a session takes.
_MAX_WAITING_SECONDS = 400.0
_POLL_SECONDS = 0.05  # while it is not read


class RealtimeRoute:
    """Opens sessions for sockets and keeps those that can be resumed."""

    def __init__(
        self,
        models: ModelPool,
        admission: Admission,
        sessions: RunningSessions,
        limits: Limits,
        usage: Usage,
    ) -> None:
        self._models = models
        self._admission = admission
        self._sessions = sessions
        self._limits = limits
        self._usage = usage
        self._resumable: dict[str, RealtimeSession] = {}

    async def serve(self, socket: WebSocket) -> None:
        """Answer a WebSocket that was not accepted yet."""
        offered = socket.scope.get("subprotocols", [])
        token = next((name for name in offered if name.startswith(_RESUME)), None)
        wish = socket.query_params.get("wlk_resume")
        with ExitStack() as lease:  # of the model of a new session
            try:
                last = parse_last_seq(socket.query_params.getlist("wlk_last_seq"))
                if wish not in {None, _NEW}:  # a query is written to the logs of proxies
                    expected = f"as {_NEW}, and a token as the subprotocol {_RESUME}TOKEN"
                    raise invalid("wlk_resume", expected)
                checked = await self._checked(socket, lease) if token is None else None
            except WLKError as error:
                answer = as_request_error(error)
                self._models.metrics.count_error(answer)
                await socket.send_denial_response(error_response(answer))
                return
            if checked is None:
                await self._resume(socket, str(token).removeprefix(_RESUME), last)
            else:
                await self._open(socket, *checked, lease, is_resumable=wish == _NEW)

    async def _checked(self, socket: WebSocket, lease: ExitStack) -> tuple[Service, RealtimeConfig]:
        """
        Return the service and the configuration of a new session.

        Raises:
            WLKError: the session is refused.

        """
        fields = self._admission.secret_session(socket.headers)
        model = socket.query_params.get("model", model_name(fields))
        card = self._models.card(model)
        if socket.query_params.get("intent", "transcription") != "transcription":
            raise invalid("intent", "as transcription")
        config = default_config(card)
        if fields is not None:
            config = update_config(config, fields, card)
        key_id = self._admission.key_id(socket.headers)
        self._sessions.check(key_id)  # a model is not loaded for a session that is refused
        service = await self._models.lease(model, lease)
        service.check_load()
        self._sessions.check(key_id)  # others may have come while the model was loaded
        return service, config

    async def _open(
        self,
        socket: WebSocket,
        service: Service,
        config: RealtimeConfig,
        lease: ExitStack,
        *,
        is_resumable: bool,
    ) -> None:
        is_beta = socket.headers.get("openai-beta") == "realtime=v1"
        offers_beta = "openai-beta.realtime-v1" in socket.scope.get("subprotocols", [])
        key_id = self._admission.key_id(socket.headers)
        resources = lease.pop_all()  # the session may outlive its socket
        session = RealtimeSession(
            service,
            config=config,
            key_id=key_id,
            limits=self._limits,
            usage=self._usage,
            is_beta=is_beta or offers_beta,
            is_resumable=is_resumable,
            on_over=resources.close,
            on_closed=lambda: self._forget(session),
        )
        resources.enter_context(self._sessions.entered(session, key_id))
        if session.log is not None:
            self._resumable[session.log.token] = session
        try:
            await _accept(socket)
            await serve_session(socket, session, session.begin())
        finally:
            session.close_unless_waiting()

    async def _resume(self, socket: WebSocket, token: str, last: int) -> None:
        await _accept(socket)  # browsers see no status of a refusal, but they see close codes
        session = self._resumable.get(token)
        try:
            key_id = self._admission.key_id(socket.headers)
            if session is None or session.figures.key_id != key_id:
                raise resume_expired("the session is over or was never here; open a new one")
            queue = session.resume(last)
        except WLKError as error:
            answer = as_request_error(error)
            self._models.metrics.count_error(answer)
            await _close(socket, _EXPIRED, answer)
            return
        await serve_session(socket, session, queue)

    def _forget(self, session: RealtimeSession) -> None:
        if session.log is not None:
            self._resumable.pop(session.log.token, None)


async def serve_session(socket: WebSocket, session: RealtimeSession, queue: SendQueue) -> None:
    """
    Read and write an accepted *socket* until the client leaves or the session is over.

    *queue* is what the session returned when the socket was attached to it.
    """
    reader = asyncio.create_task(_read(socket, session, queue))
    writer = asyncio.create_task(_write(socket, queue))
    client_code: int | None = None
    try:
        await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (reader, writer):
            task.cancel()
        for result in await asyncio.gather(reader, writer, return_exceptions=True):
            if isinstance(result, int):
                client_code = result
            elif isinstance(result, (OSError, WebSocketDisconnect)):
                client_code = client_code or _LOST
            elif isinstance(result, Exception):
                _LOGGER.error("a session failed", exc_info=result)
                session.fail()
        code = session.close_code
        if queue.close_code is not None:
            code = queue.close_code
        elif queue.is_full:
            session.figures.metrics.send_queue_full.inc()
            code = OVERLOADED
        elif session.protocol.has_failed:
            code = BROKEN
        session.detach(queue, client_code)
        if client_code is None:
            await _close(socket, code)


async def _read(socket: WebSocket, session: RealtimeSession, queue: SendQueue) -> int:
    """Give messages to the session; return the close code of the client."""
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return int(message.get("code", _LOST))
        text = message.get("text")
        await session.receive(queue, message.get("bytes") or b"" if text is None else text)
        await queue.room()
        await asyncio.sleep(0)  # the turn of others: `receive` does not wait for what is there
        # Unread, so that TCP slows the client down; a step without events wakes no task.
        while session.backlog_seconds > _MAX_WAITING_SECONDS:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS)


async def _write(socket: WebSocket, queue: SendQueue) -> None:
    while (text := await queue.get()) is not None:
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await socket.send_text(text)
        except TimeoutError:
            queue.is_full = True  # the client reads nothing
            return


async def _accept(socket: WebSocket) -> None:
    offered = socket.scope.get("subprotocols", [])
    await socket.accept(_SUBPROTOCOL if _SUBPROTOCOL in offered else None)


async def _close(socket: WebSocket, code: int, error: RequestError | None = None) -> None:
    """Close an accepted *socket* with *code*, after *error* if there is one."""
    try:
        async with asyncio.timeout(_SEND_SECONDS):
            if error is not None:
                message = {"type": "error", "error": {**error.record(), "event_id": None}}
                await socket.send_text(json.dumps(message))
            await socket.close(code)
    except _LEFT:
        pass  # TimeoutError is an OSError: the client reads nothing
