"""The replica of Ray Serve that gets a session: one that holds the model of its client."""

from __future__ import annotations

import pickle
import random
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from ray.serve.request_router import RequestRouter

from wlk_serve.ray.loaded_models import LoadedModels, model_rank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ray.serve.request_router import PendingRequest, RunningReplica

__all__ = ["ModelRouter"]

_CHOICES = 2  # of a rank, of which Ray takes the one with fewer requests, as its own router does


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
            loaded = LoadedModels.from_json(replica.routing_stats)
            rank = model_rank(loaded, model, requests=requests)
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
