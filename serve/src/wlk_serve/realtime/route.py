"""The address ``/v1/realtime``: who may open a session, and who may resume one."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from wlk_core.errors import WLKError
from wlk_serve.errors import RequestError, as_request_error, error_response
from wlk_serve.realtime.config import default_config, model_name, update_config
from wlk_serve.realtime.resume import parse_last_seq, resume_expired
from wlk_serve.realtime.session import RealtimeSession
from wlk_serve.realtime.socket import accept, refuse, serve_session

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from wlk_serve.http.admission import Admission
    from wlk_serve.models.models import Models
    from wlk_serve.models.service import Service
    from wlk_serve.ops.limits import Limits, Usage
    from wlk_serve.ops.running import Sessions
    from wlk_serve.realtime.config import RealtimeConfig

__all__ = ["RealtimeRoute"]

_EXPIRED = 4404  # close code of a session that cannot be resumed
_NEW = "1"  # asks for a token


class RealtimeRoute:
    """Opens sessions for sockets and keeps those that can be resumed."""

    def __init__(
        self,
        models: Models,
        admission: Admission,
        sessions: Sessions,
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
        resume_token = socket.query_params.get("wlk_resume")
        with ExitStack() as lease:  # of the model of a new session
            try:
                last = parse_last_seq(socket.query_params.getlist("wlk_last_seq"))
                checked = (
                    await self._checked(socket, lease) if resume_token in {None, _NEW} else None
                )
            except WLKError as error:
                answer = as_request_error(error)
                self._models.metrics.count_error(answer)
                await socket.send_denial_response(error_response(answer))
                return
            if checked is None:
                await self._resume(socket, resume_token or "", last)
            else:
                await self._open(socket, *checked, lease, is_resumable=resume_token == _NEW)

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
            raise RequestError(
                "expected intent=transcription", code="invalid_value", param="intent"
            )
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
            await accept(socket)
            await serve_session(socket, session, session.begin())
        finally:
            session.close_unless_waiting()

    async def _resume(self, socket: WebSocket, token: str, last: int) -> None:
        await accept(socket)  # browsers see no status of a refusal, but they see close codes
        session = self._resumable.get(token)
        try:
            if session is None:
                raise resume_expired("the session is over or was never here; open a new one")
            queue = session.resume(last)
        except RequestError as error:
            self._models.metrics.count_error(error)
            await refuse(socket, error, _EXPIRED)
            return
        await serve_session(socket, session, queue)

    def _forget(self, session: RealtimeSession) -> None:
        if session.log is not None:
            self._resumable.pop(session.log.token, None)
