"""The router of an application with several models, without a cluster."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

pytest.importorskip("ray", reason="runs in the session: nox -s ray")

from ray.serve._private.proxy_request_response import ASGIProxyRequest

from wlk_serve.ray.application import ModelRouter

PLACES = 2


def replica(name, *models, has_room=False):
    """Return a replica that has reported models; without models it has not reported yet."""
    report = {"default": "a", "names": [*models], "has_room": has_room, "max_sessions": PLACES}
    return SimpleNamespace(replica_id=name, routing_stats=report if models else {})


def request(query=b"", header=""):
    """Return a request as Ray's proxy makes it."""
    scope = {"type": "websocket", "query_string": query}
    proxied = ASGIProxyRequest(scope, None, None).serialized_replica_arg("proxy")
    return SimpleNamespace(
        args=[proxied],
        metadata=SimpleNamespace(multiplexed_model_id=header),
        routing_context=SimpleNamespace(should_backoff=False),
    )


def ranks(replicas, pending=None, requests=None):
    """Return the names of the replicas that are chosen, by their ranks."""
    router = SimpleNamespace(replica_queue_len_cache=requests or {})
    chosen = asyncio.run(ModelRouter.choose_replicas(router, replicas, pending))
    return [sorted(each.replica_id for each in rank) for rank in chosen]


def test_the_model_of_the_query_finds_its_replica():
    """A client that names none belongs to a replica with the default model."""
    replicas = [replica("one", "a"), replica("two", "b"), replica("three", "c", has_room=True)]

    assert [["two"], ["three"], ["one"]] == ranks(replicas, request(b"intent=x&model=b"))
    assert [["one"], ["three"], ["two"]] == ranks(replicas, request())
    assert [["one"], ["three"], ["two"]] == ranks(replicas)


def test_the_header_of_ray_comes_before_the_query():
    """The model of an upload is in its body, which no router reads."""
    replicas = [replica("one", "a"), replica("two", "b")]

    assert [["two"], ["one"]] == ranks(replicas, request(b"model=a", header="b"))


def test_a_replica_without_a_place_comes_last():
    """It would refuse the session, whatever its model is."""
    replicas = [replica("one", "b"), replica("two", "a"), replica("new")]

    assert [["new", "two"], ["one"]] == ranks(replicas, request(b"model=b"), {"one": PLACES})


def test_two_replicas_of_a_rank_are_compared():
    """Ray asks those that are chosen for the number of their requests."""
    replicas = [replica(str(number), "a") for number in range(10)]
    pending = request()

    assert [2] == [len(rank) for rank in ranks(replicas, pending)]
    assert pending.routing_context.should_backoff is True
