"""The ASGI application: routes, the caption page, and failures as OpenAI's error objects."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
import logging
import secrets
import time
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from wlk_core.errors import WLKError
from wlk_serve.admission import Admission, Limits, parse_secret_request
from wlk_serve.errors import RequestError, error_response
from wlk_serve.ops.running import RunningSessions
from wlk_serve.protocols.routes import RecordingRoute, SocketRoute, TcpRoute, header_keys
from wlk_serve.realtime.config import default_config, model_name, update_config
from wlk_serve.sessions.sockets import SessionSockets
from wlk_serve.transcriptions.route import Upload, body_parts, transcribe_body, transcribe_upload

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from wlk_serve.models.service import Service
    from wlk_serve.ops.metrics import Metrics
    from wlk_serve.protocols.options import Task
    from wlk_serve.protocols.routes import ProtocolRoute

_LOGGER = logging.getLogger(__name__)
_MAX_JSON_BYTES = 65_536
_REALTIME = "/v1/realtime"
_CANARY_MAX_AGE = 15.0  # seconds; a canary that succeeded this recently makes the server ready
_HEALTH = {"/livez", "/readyz", "/health"}
PAGE_HEADERS: Mapping[str, str] = {
    "cache-control": "no-cache",  # browsers revalidate: an updated server has an updated page
    # Scripts, styles and connections come from this server only, and nothing inline is allowed.
    "content-security-policy": "default-src 'none'; script-src 'self'; worker-src 'self'; "
    "style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "microphone=(self), display-capture=(self), screen-wake-lock=(self)",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Server:
    """Serves one model: run `app` under an ASGI server, drain `sessions` before stopping it."""

    def __init__(
        self,
        service: Service,
        *,
        routes: Iterable[ProtocolRoute],
        admission: Admission | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._service = service
        self._admission = Admission() if admission is None else admission
        self._limits = Limits() if limits is None else limits
        self.sessions = RunningSessions(self._limits)
        self._metrics = service.metrics
        protocols = list(routes)
        sockets = SessionSockets(service, self._admission, self.sessions, self._limits)
        #: Connection handlers of protocols with their own ports, by protocol name.
        self.tcp_handlers = {
            route.protocol: partial(sockets.serve_tcp, route)
            for route in protocols
            if isinstance(route, TcpRoute)
        }
        recordings = [route for route in protocols if isinstance(route, RecordingRoute)]
        files = _Files(packages=[("wlk_serve", "page")])
        addresses = [
            Route("/", files.index),
            Mount("/page", files),
            Route("/livez", self._livez),
            Route("/readyz", self._readyz),
            Route("/health", self._readyz),  # as vLLM, speaches and whisperlivekit call it
            Route("/metrics", self._render_metrics),
            Route("/v1/models", self._list_models),
            Route("/v1/models/{name:path}", self._find_model),
            Route("/v1/audio/transcriptions", self._transcribe, methods=["POST"]),
            Route("/v1/audio/translations", self._transcribe, methods=["POST"]),
            Route("/v1/realtime/client_secrets", self._client_secrets, methods=["POST"]),
            *(
                Route(route.path, partial(self._transcribe_body, route), methods=["POST"])
                for route in recordings
            ),
            *(
                WebSocketRoute(route.path, partial(sockets.serve, route))
                for route in protocols
                if isinstance(route, SocketRoute)
            ),
            WebSocketRoute("/{path:path}", self._refuse_socket),
        ]
        handlers: Mapping[Any, Callable[[Request, Any], Awaitable[Response]]] = {
            WLKError: self._refuse,
            HTTPException: self._refuse_address,
            Exception: self._refuse_unexpected,
        }
        starlette = Starlette(routes=addresses, exception_handlers=handlers)
        # Behind a proxy with TLS, a redirect would send the key and the audio over plain HTTP.
        starlette.router.redirect_slashes = False
        self.app: ASGIApp = CORSMiddleware(  # outside the guard: preflight requests have no key
            _Guard(starlette, self._admission, self._metrics, {route.path for route in recordings}),
            allow_origins=tuple(self._admission.origins),
            allow_methods=("GET", "POST"),
            allow_headers=("*",),
            expose_headers=("x-request-id", "x-wlk-ignored", "retry-after"),
        )

    async def _livez(self, _request: Request) -> Response:
        if self._service.is_hung:
            raise RequestError("an engine call does not return", status=503, code="engine_hung")
        return JSONResponse({"status": "alive"})

    async def _readyz(self, _request: Request) -> Response:
        if self.sessions.is_draining:
            raise RequestError("the server is shutting down", status=503, code="not_ready")
        await self._service.check_canary(_CANARY_MAX_AGE)
        return JSONResponse({"status": "ready", "sessions": len(self.sessions)})

    async def _render_metrics(self, _request: Request) -> Response:
        text, media_type = self._metrics.render()
        return Response(text, media_type=media_type)

    async def _list_models(self, _request: Request) -> Response:
        card = self._service.card
        records = [card.named(name).record() for name in card.names]
        return JSONResponse({"object": "list", "data": records})

    async def _find_model(self, request: Request) -> Response:
        card = self._service.card.named(request.path_params["name"])
        return JSONResponse(card.record())

    async def _transcribe(self, request: Request) -> Response:
        task: Task = "translate" if request.url.path.endswith("/translations") else "transcribe"
        uploading = self._uploading(header_keys(request.headers), "rest")
        return await transcribe_upload(request, self._service, uploading, task)

    async def _transcribe_body(self, route: RecordingRoute, request: Request) -> Response:
        try:
            uploading = self._uploading(route.keys(request), route.protocol)
            return await transcribe_body(request, self._service, uploading, route)
        except WLKError as error:
            return route.refuse(self._metrics.counted(error))

    @contextmanager
    def _uploading(self, keys: Iterable[str], protocol: str) -> Iterator[Upload]:
        """Admit an upload, count it until it is answered, and log it."""
        key_id, _ = self._admission.identify(keys)
        self.sessions.check(key_id)
        upload = Upload(self._metrics, self._limits, key_id=key_id, protocol=protocol)
        with self.sessions.entered(upload, key_id):
            try:
                yield upload
            except BaseException as error:
                upload.finish(error)
                raise
            upload.finish(None)

    async def _client_secrets(self, request: Request) -> Response:
        try:
            parts = [part async for part in body_parts(request, _MAX_JSON_BYTES)]
            body = msgspec.json.decode(b"".join(parts) or b"{}")
        except (ValueError, RecursionError):
            raise RequestError("expected a JSON body", code="invalid_json") from None
        requested, seconds = parse_secret_request(body)
        card = self._service.card.named(model_name(requested))
        config = update_config(default_config(card), requested, card)
        key_id, _ = self._admission.identify(header_keys(request.headers))
        value, expires_at = self._admission.mint(key_id, requested, seconds, time.time())
        session = {
            "id": f"sess_{secrets.token_hex(12)}",
            "object": "realtime.transcription_session",
            **config.record(),
        }
        return JSONResponse({"value": value, "expires_at": expires_at, "session": session})

    async def _refuse(self, _request: Request, error: Exception) -> Response:
        return error_response(self._metrics.counted(error))

    async def _refuse_address(self, request: Request, error: HTTPException) -> Response:
        status, path = error.status_code, request.url.path
        message = f"{request.method} {path[:200]} is not served here"
        if path == _REALTIME:
            message += "; connect with a WebSocket, which a proxy must pass on"
        elif methods := (error.headers or {}).get("Allow"):
            message += f"; use {methods}"
        return await self._refuse(request, RequestError(message, status=status, code="unknown_url"))

    async def _refuse_socket(self, socket: WebSocket) -> None:
        """Refuse a WebSocket at a path that no protocol has, such as another server's."""
        message = f"WebSocket {socket.url.path[:200]} is not served here; use {_REALTIME}"
        answer = self._metrics.counted(RequestError(message, status=404, code="unknown_url"))
        await socket.send_denial_response(error_response(answer))

    async def _refuse_unexpected(self, request: Request, error: Exception) -> Response:
        _LOGGER.error("a request failed", exc_info=error)
        return await self._refuse(request, error)


class _Files(StaticFiles):
    """The files of the caption page, with headers that keep foreign content out of it."""

    async def index(self, request: Request) -> Response:
        return await self.get_response("index.html", request.scope)

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers.update(PAGE_HEADERS)
        return response


@attrs.frozen
class _Guard:
    """Checks the site of every request but health checks, and the key where no route does."""

    _app: ASGIApp
    _admission: Admission
    _metrics: Metrics
    _own_keys: Collection[str]  # paths of protocols that look for keys themselves

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] not in {"http", "websocket"} or path in _HEALTH:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._admission.check_site(headers)
            # Protocols know where their clients put keys; the page holds no secret.
            finds_keys = scope["type"] == "websocket" or path in self._own_keys
            is_page = path == "/" or path.startswith("/page/")
            if not finds_keys and not is_page:
                self._admission.identify(header_keys(headers))
        except RequestError as error:
            response = error_response(self._metrics.counted(error))
            if scope["type"] == "http":
                await response(scope, receive, send)
            else:
                await WebSocket(scope, receive, send).send_denial_response(response)
            return
        await self._app(scope, receive, send)
