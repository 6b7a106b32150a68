"""The Ray Serve deployment whose replicas each hold a loaded model."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ray import serve

from wlk_core.errors import OptionError
from wlk_core.registry import Registry
from wlk_live.config import choose_settings
from wlk_serve.admission import Admission, Limits, read_keys
from wlk_serve.app import Server
from wlk_serve.models.service import loaded_service
from wlk_serve.protocols.installed import installed_routes

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from wlk_serve.ray.settings import ReplicaSettings

_TARGET_LOAD = 0.7  # of a replica; leaves room for new sessions while another one starts
_EXTRA_REQUESTS = 16  # beyond the sessions: for the 503 of a full replica and for health checks
_GRACE_SECONDS = 60.0  # after the time limit of a session, for its last words


async def _forward(scope: Scope, receive: Receive, send: Send) -> None:
    """Pass a request to the server of the replica in this process."""
    if scope["type"] == "lifespan":  # comes before the replica exists, which needs no such events
        for phase in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{phase}.complete"})
        return
    replica = serve.get_replica_context().servable_object
    await replica.server.app(scope, receive, send)


@serve.ingress(lambda: _forward)  # called before the replica exists
class Replica:
    """
    The loaded model and its sessions.

    A socket stays on its replica to the end.  A client that loses its replica opens a new session
    and sends the uncommitted audio again, as the backend `realtime` of wlk-realtime does.
    """

    def __init__(self, settings: ReplicaSettings) -> None:
        self._settings = settings
        self._drain: asyncio.Task[None] | None = None
        self._resources = ExitStack()
        registry = Registry()
        chosen = choose_settings(
            registry,
            backend=settings.backend,
            model=settings.model,
            language=settings.language,
            pairs=settings.options,
        )
        self._service = self._resources.enter_context(
            loaded_service(
                registry,
                chosen,
                max_sessions=settings.max_sessions,
                annotators={"diarizer": (settings.diarizer, {})} if settings.diarizer else {},
                served_names=settings.served_names,
            )
        )
        keys = read_keys(settings.api_key_env)
        self.server = Server(
            self._service,
            routes=installed_routes(registry),
            admission=Admission.of(keys, settings.allow_origins, is_local=not keys),
            limits=Limits(
                max_sessions=settings.max_sessions, max_session_seconds=settings.session_seconds
            ),
        )

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """
        Drain the sessions before a deployment is replaced: `user_config: {draining: true}`.

        Ray stops a replica after its grace period without notice to the sessions.  A drained one
        has already ended them with all words and the close code 1012, on which clients reconnect.
        """
        is_draining = user_config.get("draining", False)
        if not isinstance(is_draining, bool):
            raise OptionError(f"expected true or false for draining, got {is_draining!r}")
        if is_draining and self._drain is None:
            drain = self.server.sessions.drain(self._settings.drain_seconds)
            self._drain = asyncio.get_running_loop().create_task(drain)
        elif not is_draining and self._drain is not None:
            await self._drain
            self._drain = None
            self.server.sessions.is_draining = False

    async def check_health(self) -> None:
        """Check the engine with a canary; Ray replaces a replica whose check raises."""
        await self._service.check_canary(max_age=30.0)

    def __del__(self) -> None:
        """Close the model; Ray calls this when the replica stops."""
        if hasattr(self, "_resources"):  # missing if __init__ did not run
            self._resources.close()


def deployed(settings: ReplicaSettings) -> serve.Application:
    """Return the Ray application with *settings*."""
    deployment = serve.deployment(
        Replica,
        name="wlk",
        max_ongoing_requests=settings.max_sessions + _EXTRA_REQUESTS,
        # Sockets in Ray's queue get no answer, so the queue is short; clients beyond it get 503.
        max_queued_requests=_EXTRA_REQUESTS,
        graceful_shutdown_timeout_s=settings.session_seconds + _GRACE_SECONDS,
        health_check_timeout_s=60.0,
        ray_actor_options={"num_cpus": settings.num_cpus, "num_gpus": settings.num_gpus},
        user_config={"draining": False},
        autoscaling_config={
            "min_replicas": settings.min_replicas,
            "max_replicas": settings.max_replicas,
            "target_ongoing_requests": _TARGET_LOAD * settings.max_sessions,
        },
    )
    return deployment.bind(settings)
