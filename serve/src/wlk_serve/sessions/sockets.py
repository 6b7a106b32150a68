"""Open and resume sessions over sockets, and carry their messages."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
import json
import logging
from typing import TYPE_CHECKING, Any, cast

import attrs
from starlette.websockets import WebSocketDisconnect

from wlk_core.errors import WLKError
from wlk_serve.errors import contained
from wlk_serve.protocols.routes import CloseSocket, Handshake, Resumption
from wlk_serve.sessions.messages import resume_expired
from wlk_serve.sessions.session import END_OF_AUDIO, LOST, OVERLOADED, ClientSession

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable

    from starlette.websockets import WebSocket

    from wlk_serve.admission import Admission, Limits
    from wlk_serve.errors import RequestError
    from wlk_serve.models.service import Service
    from wlk_serve.ops.running import Running, RunningSessions
    from wlk_serve.protocols.routes import Message, Opening, SocketRoute, TcpRoute
    from wlk_serve.sessions.messages import SendQueue

_LOGGER = logging.getLogger(__name__)

_EXPIRED = 4404  # close code of a session that cannot be resumed
_SEND_SECONDS = 10.0  # for one message, and for what a TCP connection has left to send at its end
_LINGER_SECONDS = 2.0  # for a TCP client to close its side; a shutdown waits for it


@attrs.define
class SessionSockets:
    """Opens sessions for the sockets of every protocol, and keeps those that can be resumed."""

    _service: Service
    _admission: Admission
    _sessions: RunningSessions
    _limits: Limits
    _resumable: dict[str, ClientSession] = attrs.field(init=False, factory=dict)  # by token

    async def serve(self, route: SocketRoute, socket: WebSocket) -> None:
        """Accept or refuse a WebSocket, and serve its session."""
        try:
            with contained():
                keys, takes_secrets = route.keys(socket), route.takes_secrets
                key_id, secret = self._admission.identify(keys, takes_secrets=takes_secrets)
                opening = route.open(Handshake.of(socket, self._service.card, secret, key_id))
                session = (
                    None
                    if isinstance(opening, Resumption)
                    else self._new_session(route.protocol, opening, key_id)
                )
        except Exception as error:  # noqa: BLE001 -- also of a plugin's code
            answer = route.refuse(self._counted(error))
            if not isinstance(answer, CloseSocket):
                await socket.send_denial_response(answer)
                return
            if answer.message is not None:
                # Browsers fail a connection that accepts none of the subprotocols they offered.
                await socket.accept(next(iter(socket.scope.get("subprotocols", ())), None))
            await _close(socket, answer.code, message=answer.message)
            return
        if session is None:
            await self._resume(socket, cast("Resumption", opening), key_id)
            return
        await self._serve_new(socket, session, opening.subprotocol)

    async def serve_tcp(self, route: TcpRoute, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve a session over a TCP connection, or refuse it."""
        socket = _TcpSocket(route, reader, writer)
        try:
            with contained():
                opening = route.open(self._service.card.named)
                session = self._new_session(route.protocol, opening, "")
        except Exception as error:  # noqa: BLE001 -- also of a plugin's code
            message = route.refuse(self._counted(error))
            await _close(socket, OVERLOADED, message=message)
        else:
            await self._serve_new(socket, session, None)
        finally:
            writer.close()  # even if the client left
            # A client that never reads would keep its file descriptor for ever.
            asyncio.get_running_loop().call_later(_SEND_SECONDS, writer.transport.abort)

    def _counted(self, error: Exception) -> RequestError:
        """Return the answer to *error* after counting it; log one that is a defect."""
        if not isinstance(error, WLKError):
            _LOGGER.error("a session failed", exc_info=error)
        return self._service.metrics.counted(error)

    def _new_session(self, protocol: str, opening: Opening, key_id: str) -> ClientSession:
        """Return a new session, counted until it is over; raise WLKError to refuse it."""
        counted = ExitStack()

        def occupy(running: Running) -> Callable[[], object]:
            self._sessions.check(key_id)
            self._service.check_load()
            place = counted.enter_context(ExitStack())
            place.enter_context(self._sessions.entered(running, key_id))
            return place.close

        def forget() -> None:
            if session.log is not None:
                self._resumable.pop(session.log.token, None)

        try:
            session = ClientSession(
                self._service,
                opening,
                protocol=protocol,
                key_id=key_id,
                limits=self._limits,
                occupy=occupy,
                on_over=counted.close,
                on_closed=forget,
            )
        except BaseException:  # such as a refusal by the protocol
            counted.close()
            raise
        if session.log is not None:
            self._resumable[session.log.token] = session
        return session

    async def _serve_new(
        self, socket: WebSocket | _TcpSocket, session: ClientSession, subprotocol: str | None
    ) -> None:
        try:
            await socket.accept(subprotocol)
            await serve_session(socket, session, session.begin())
        finally:
            session.close_unless_waiting()

    async def _resume(self, socket: WebSocket, resumption: Resumption, key_id: str) -> None:
        # Accept before refusing: browsers cannot see the status of a refusal, only close codes.
        await socket.accept(resumption.subprotocol)
        session = self._resumable.get(resumption.token)
        try:
            if session is None or session.figures.key_id != key_id:
                raise resume_expired("the session is over or was never here; open a new one")
            queue = session.resume(resumption.last)
        except WLKError as error:
            record = {**self._service.metrics.counted(error).record(), "event_id": None}
            await _close(socket, _EXPIRED, message={"type": "error", "error": record})
            return
        await serve_session(socket, session, queue)


@attrs.define
class _TcpSocket:
    """A TCP connection with the methods of a WebSocket that a session uses."""

    _route: TcpRoute
    _reader: StreamReader
    _writer: StreamWriter
    _is_at_end: bool = False

    async def accept(self, _subprotocol: str | None) -> None:
        pass  # a TCP connection needs no handshake

    async def receive(self) -> dict[str, Any]:
        if self._is_at_end:
            await asyncio.Event().wait()
        try:
            with contained():
                data = await self._route.read(self._reader)
        except (ValueError, EOFError):  # malformed, or cut off
            return {"type": "websocket.disconnect", "code": LOST}
        if data is None:  # clients may close their side after the last message, and then read
            self._is_at_end = True
            return {"type": END_OF_AUDIO}
        return {"type": "websocket.receive", "bytes": data}

    async def send_text(self, text: str) -> None:
        self._writer.write(text.encode() + b"\n")
        await self._writer.drain()

    async def close(self, _code: int, _reason: str = "") -> None:
        # Closing while the client sends would reset it, perhaps before it reads the last messages.
        self._writer.write_eof()
        async with asyncio.timeout(_LINGER_SECONDS):
            while await self._reader.read(1 << 16):
                pass


async def serve_session(
    socket: WebSocket | _TcpSocket, session: ClientSession, queue: SendQueue
) -> None:
    """
    Read and write an accepted *socket* until the client leaves or the session is over.

    *queue* is the one that the session returned when the socket was attached.
    """
    reader = asyncio.create_task(session.read(socket, queue))
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
                client_code = client_code or LOST
            elif isinstance(result, Exception):
                _LOGGER.error("a session failed", exc_info=result)
                session.fail()
        code = session.detach(queue, client_code)
        if client_code is None:
            await _close(socket, code, session.close_reason)


async def _write(socket: WebSocket | _TcpSocket, queue: SendQueue) -> None:
    while (text := await queue.get()) is not None:
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                await socket.send_text(text)
        except TimeoutError:
            queue.is_full = True  # the client reads nothing
            return
        except RuntimeError as error:  # uvicorn and starlette raise it for a closed socket
            raise WebSocketDisconnect(LOST) from error


async def _close(
    socket: WebSocket | _TcpSocket, code: int, reason: str = "", *, message: Message | None = None
) -> None:
    """Send *message*, if there is one, then close *socket* with *code* and *reason*."""
    try:
        async with asyncio.timeout(_SEND_SECONDS):
            if message is not None:
                await socket.send_text(json.dumps(message))
            await socket.close(code, reason)
    except (OSError, RuntimeError, WebSocketDisconnect):
        pass  # the client left, or does not read (TimeoutError is an OSError)
