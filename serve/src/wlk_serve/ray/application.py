"""The deployment of Ray Serve whose replicas hold loaded models, and its router."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
import pickle
import random
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import attrs
from ray import serve
from ray.serve.config import RequestRouterConfig
from ray.serve.request_router import RequestRouter

from wlk_core.config import choose_settings
from wlk_core.errors import OptionError
from wlk_core.registry import Registry
from wlk_serve.app import Server
from wlk_serve.http.admission import Admission, read_keys
from wlk_serve.models.card import ModelCard
from wlk_serve.models.pool import ModelPool
from wlk_serve.models.service import DiarizerSource, Service
from wlk_serve.ops.limits import Limits
from wlk_serve.ops.metrics import Metrics
from wlk_serve.ray.placement import LATENESS, ScalingPolicy, model_rank
from wlk_serve.ray.settings import ReplicaSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ray.serve.request_router import PendingRequest, RunningReplica
    from starlette.types import ASGIApp, Receive, Scope, Send

    from wlk_core.config import Settings

__all__ = ["ModelRouter", "Replica", "build"]

_SPARE_REQUESTS = 16  # of a replica that is full, so that it answers 503 itself, and health checks
_MODELS_SECONDS = 1.0  # between two reports of the models of a replica to the router
_CHOICES = 2  # of a rank, of which Ray takes the one with fewer requests, as its own router does
_FLUSH_SECONDS = 60.0  # after the last second that a session may last


def model_pool(settings: ReplicaSettings, registry: Registry) -> ModelPool:
    """
    Return the models of a replica; none of them is loaded yet.

    Raises:
        OptionError: two models have the same name, or the backend refuses a setting.
        BackendUnavailable: the backend or the diarizer is not installed.

    """
    diarizers = DiarizerSource.named(registry, settings.diarizer)
    chosen: dict[str, Settings] = {}
    cards = []
    for model in settings.models or (settings.model,):
        options = choose_settings(
            registry,
            backend=settings.backend,
            model=model,
            language=settings.language,
            pairs=settings.options,
        )
        card = ModelCard.of(
            options.spec, options.model, options.language, served_name=settings.served_name
        )
        if diarizers is not None:
            card = attrs.evolve(card, speaker_delay=diarizers.max_delay)
        chosen[card.name] = options
        cards.append(card)
    metrics = Metrics()

    def load(card: ModelCard) -> Service:
        options = chosen[card.name]
        with ExitStack() as stack:
            backend = stack.enter_context(options.load(registry))
            backend.warmup()
            service = Service(
                backend,
                card,
                stream_options=options.options.stream,
                diarizers=diarizers,
                metrics=metrics,
                owns_backend=True,
            )
            service.probe_model()
            stack.pop_all()
        return service

    return ModelPool(cards, load, max_models=settings.max_models, metrics=metrics)


class ModelRouter(RequestRouter):  # type: ignore[misc]  # Ray is optional, so that mypy sees Any
    """
    A router of Ray Serve that prefers replicas with the model of a request.

    Replicas report their models once a second.  Until a change has come through, a session may get
    to a replica without its model, which loads it, or answers 503.

    Ray keeps the router of a deployment, and its arguments, when the deployment is updated.  So
    every application has this one, and all that may change is in the reports.
    """

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Return two replicas of each rank, those with the model of the request first."""
        model = None
        if pending_request is not None:
            pending_request.routing_context.should_backoff = True  # where none takes the request
            model = pending_request.metadata.multiplexed_model_id or _model_of(pending_request.args)
        ranks: dict[int, list[RunningReplica]] = {}
        for replica in candidate_replicas:
            requests = self.replica_queue_len_cache.get(replica.replica_id) or 0
            rank = model_rank(replica.routing_stats, model, requests=requests)
            ranks.setdefault(rank, []).append(replica)
        return [
            random.sample(replicas, min(_CHOICES, len(replicas)))
            for _, replicas in sorted(ranks.items())
        ]


def _model_of(arguments: Sequence[Any]) -> str | None:
    """Return the model in the query of a request, None where the query names no model."""
    if not arguments or not isinstance(arguments[0], bytes):
        return None
    # Ray's proxy pickled the request in this process, to send it to a replica as bytes.
    scope = pickle.loads(arguments[0]).asgi_scope  # noqa: S301 -- as above
    query = parse_qs(str(scope.get("query_string", b""), "latin-1"))
    names: list[str] = query.get("model", [])
    return names[0] if names else None


async def _forward(scope: Scope, receive: Receive, send: Send) -> None:
    """Give a request to the server of the replica that runs here."""
    if scope["type"] == "lifespan":  # before there is a replica, which opens and closes by itself
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})
        return
    replica = serve.get_replica_context().servable_object
    await replica.server.app(scope, receive, send)


def _application() -> ASGIApp:
    """Return what Ray gives requests to; it calls this before there is a replica."""
    return _forward


@serve.ingress(_application)
class Replica:
    """
    The loaded models and their sessions.

    A socket stays on its replica to the end.  A client that loses its replica opens another session
    and sends again what was not committed; the backend `realtime` of wlk-realtime does so.
    """

    def __init__(self, settings: ReplicaSettings) -> None:
        self._settings = settings
        self._drain: asyncio.Task[None] | None = None
        self._models = model_pool(settings, Registry())
        self._models.load_default()
        keys = read_keys(settings.api_key_env)
        self.server = Server(
            self._models,
            admission=Admission.of(keys, settings.allow_origins, is_local=not keys),
            limits=Limits(
                max_sessions=settings.max_sessions, max_session_seconds=settings.session_seconds
            ),
        )

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """
        Drain the sessions before a deployment is replaced: `user_config: {draining: true}`.

        Ray stops a replica without a word to its sessions when its time is over.  A drained one has
        ended them with all of their words and the close code 1012, on which clients connect again.
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
            self.server.sessions.reopen()

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """Return how late the steps of the sessions end, in seconds."""
        return {LATENESS: self._models.lateness}

    async def record_routing_stats(self) -> dict[str, Any]:
        """Return the models that are loaded, for the router."""
        models = self._models
        return {
            "default": models.card(None).name,
            "names": [*models.loaded, *models.loading],
            "has_room": models.has_room,
            "max_sessions": self._settings.max_sessions,
        }

    async def check_health(self) -> None:
        """Let a short session come through; Ray replaces a replica where it does not."""
        await self._models.check_canary(max_age=30.0)

    def __del__(self) -> None:
        """Close the models; Ray calls this when the replica stops."""
        if hasattr(self, "_models"):  # not where the settings were refused
            self._models.close()


def build(arguments: dict[str, Any]) -> serve.Application:
    """
    Return the application for `serve run` and for the `import_path` of a YAML file.

    Args:
        arguments: the attributes of `ReplicaSettings`; numbers and lists may be text.

    Raises:
        OptionError: an unknown argument, or a value that does not fit.

    """
    settings = ReplicaSettings.parse(arguments)
    deployment = serve.deployment(
        Replica,
        name="wlk",
        max_ongoing_requests=settings.max_sessions + _SPARE_REQUESTS,
        # A socket that waits for a place waits in silence: more than these get 503.
        max_queued_requests=_SPARE_REQUESTS,
        graceful_shutdown_timeout_s=settings.session_seconds + _FLUSH_SECONDS,
        health_check_timeout_s=60.0,
        ray_actor_options={"num_cpus": settings.num_cpus, "num_gpus": settings.num_gpus},
        user_config={"draining": False},
        autoscaling_config={
            "min_replicas": settings.min_replicas,
            "max_replicas": settings.max_replicas,
            "policy": {
                "policy_function": f"{ScalingPolicy.__module__}:{ScalingPolicy.__name__}",
                "policy_kwargs": {"max_sessions": settings.max_sessions},
            },
        },
        request_router_config=RequestRouterConfig(
            request_router_class=ModelRouter, request_routing_stats_period_s=_MODELS_SECONDS
        ),
    )
    return deployment.bind(settings)
