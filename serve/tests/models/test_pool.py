"""Several models of which a process holds a few."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
import threading

import attrs
import pytest

from wlk_core.errors import OptionError, WLKError
from wlk_serve.errors import RequestError
from wlk_serve.models.pool import ModelPool
from wlk_serve.ops.metrics import Metrics


class FakeService:
    """A service that counts its canaries."""

    def __init__(self, card):
        self.card = attrs.evolve(card, vocabulary=("loaded",))
        self.lateness = 0.25
        self.canaries = []
        self.is_closed = False

    async def check_canary(self, max_age):
        """Record the age."""
        self.canaries.append(max_age)

    async def wait_for_canary(self):
        """Return at once."""

    def close(self):
        """Remember it."""
        self.is_closed = True


class Loader:
    """Loads fakes; holds a load while its gate is closed, fails where it is asked to."""

    def __init__(self):
        self.models = []
        self.gate = threading.Event()
        self.gate.set()
        self.error = None

    def __call__(self, card):
        """Return a new model of a card."""
        assert self.gate.wait(60)
        if self.error is not None:
            raise self.error
        self.models.append(FakeService(card))
        return self.models[-1]

    @property
    def names(self):
        """The names of the loads."""
        return [model.card.name for model in self.models]


@pytest.fixture
def loader():
    """Return a loader."""
    return Loader()


@pytest.fixture
def pool(card, loader):
    """Return a function that makes a pool of the models a, b and c."""

    def pool(max_models=1, patience=60.0):
        cards = [attrs.evolve(card, name=name) for name in "abc"]
        return ModelPool(cards, loader, max_models=max_models, metrics=Metrics(), patience=patience)

    return pool


def test_a_pool_has_room_where_a_model_is_unused(pool, loader):
    """A model that is in use, or that is being loaded, keeps its place."""

    async def run():
        models = pool(max_models=2)
        rooms = [models.has_room]
        with ExitStack() as first, ExitStack() as second:
            await models.lease("a", first)
            rooms.append(models.has_room)
            loader.gate.clear()
            load = asyncio.create_task(models.lease("b", second))
            await asyncio.sleep(0)
            rooms.append(models.has_room)
            loading = models.loading
            loader.gate.set()
            await load
            rooms.append(models.has_room)
        return [*rooms, models.has_room], loading

    assert ([True, True, False, False, True], ("b",)) == asyncio.run(run())


async def refusal(pool, name):
    """Return the error with which a lease is refused."""
    with ExitStack() as stack, pytest.raises(RequestError) as refused:
        await pool.lease(name, stack)
    return refused.value


async def leave(pool, name):
    """Let a client ask for a model and leave while the model loads."""
    with ExitStack() as stack:
        client = asyncio.create_task(pool.lease(name, stack))
        await asyncio.sleep(0)
        client.cancel()
        await asyncio.gather(client, return_exceptions=True)


def test_a_model_is_loaded_once_for_all_of_its_clients(pool, loader):
    """Clients that come while it loads wait for the same load."""

    async def run():
        models = pool()
        with ExitStack() as stack:
            services = await asyncio.gather(*(models.lease("a", stack) for _ in range(3)))
            return {service.card.name for service in services}

    assert {"a"} == asyncio.run(run())
    assert ["a"] == loader.names


def test_the_model_that_was_unused_for_longest_makes_room(pool, loader):
    """No more models are loaded than allowed; a use makes a model the newest."""

    async def run():
        models = pool(max_models=2)
        for name in ("a", "b", "a", "c"):
            with ExitStack() as stack:
                await models.lease(name, stack)
        return models.loaded

    assert ("a", "c") == asyncio.run(run())
    assert ["a", "b", "c"] == loader.names
    assert [False, True, False] == [model.is_closed for model in loader.models]


def test_a_model_with_sessions_is_never_unloaded(pool, loader):
    """Clients of other models get 503 with a time to come again, until its last session ends."""

    async def run():
        models = pool()
        with ExitStack() as first, ExitStack() as second:
            await models.lease("a", first)
            await models.lease("a", second)
            first.close()
            error = await refusal(models, "b")
            is_closed = loader.models[0].is_closed
        with ExitStack() as third:
            await models.lease("b", third)
        return error, is_closed

    error, is_closed = asyncio.run(run())

    assert (503, "server_overloaded", 5) == (error.status, error.code, error.retry_after)
    assert "in use: a" in str(error)
    assert not is_closed
    assert ["a", "b"] == loader.names


def test_a_client_does_not_wait_in_silence_while_a_model_loads(pool, loader):
    """It is refused after a time; the load goes on, so that it finds the model when it returns."""

    async def run():
        models = pool(patience=0.01)
        loader.gate.clear()
        error = await refusal(models, "b")
        loader.gate.set()
        await asyncio.wait(models._loading.values())
        with ExitStack() as stack:
            await models.lease("b", stack)
        return error

    error = asyncio.run(run())

    assert (503, "model_loading") == (error.status, error.code)
    assert ["b"] == loader.names


def test_a_client_that_leaves_ends_no_load(pool, loader):
    """The load belongs to the pool; its model is unloaded like any other."""

    async def run():
        models = pool()
        loader.gate.clear()
        await leave(models, "a")
        loader.gate.set()
        with ExitStack() as stack:
            await models.lease("b", stack)
        return models.loaded

    assert ("b",) == asyncio.run(run())
    assert [True, False] == [model.is_closed for model in loader.models]


def test_a_model_that_cannot_be_loaded_is_tried_again(pool, loader):
    """The error reaches its client, and no place is lost."""

    async def run():
        models = pool()
        loader.error = OptionError("no such file")
        with ExitStack() as stack, pytest.raises(OptionError):
            await models.lease("a", stack)
        loader.error = None
        with ExitStack() as stack:
            return (await models.lease("a", stack)).card.name

    assert "a" == asyncio.run(run())


def test_an_error_of_a_load_keeps_its_cause(pool, loader):
    """The log has the cause: that of a plugin's own error, or what a plugin must not raise."""

    async def cause_of(error):
        loader.error = error
        with ExitStack() as stack, pytest.raises(WLKError) as raised:
            await pool().lease("a", stack)
        return raised.value.__cause__

    own, ends = OptionError("no such file"), SystemExit(3)
    own.__cause__ = OSError("the disk")

    assert isinstance(asyncio.run(cause_of(own)), OSError)
    assert ends is asyncio.run(cause_of(ends))


def test_a_load_that_fails_is_logged(pool, loader, caplog):
    """All clients that waited for it may have left."""

    async def run():
        models = pool()
        loader.gate.clear()
        loader.error = OptionError("no such file")
        await leave(models, "a")
        loader.gate.set()
        with ExitStack() as stack, pytest.raises(OptionError):
            await models.lease("a", stack)

    asyncio.run(run())
    assert ["model a was not loaded: no such file"] == caplog.messages


def test_names_choose_among_the_models(pool):
    """The first one is the default; an unknown name gets the list of all."""
    models = pool()

    assert "a" == models.card(None).name
    assert "b" == models.card("b").name
    assert "b" == models.card("toy/b").name
    with pytest.raises(RequestError) as unknown:
        models.card("whisper-1")
    assert (404, "model_not_found") == (unknown.value.status, unknown.value.code)
    assert "use one of 'a', 'b', 'c'" in str(unknown.value)
    for name in ("", 3, []):
        with pytest.raises(RequestError) as wrong:
            models.card(name)
        assert "invalid_type" == wrong.value.code


def test_loaded_models_are_declared_and_checked(pool, loader):
    """Cards have what the backend declares, canaries come through each loaded model."""

    async def run():
        models = pool(max_models=2)
        with ExitStack() as stack:
            await models.lease("b", stack)
            await models.check_canary(15.0)
            return models.cards, models.lateness

    cards, lateness = asyncio.run(run())

    assert [(), ("loaded",), ()] == [card.vocabulary for card in cards]
    assert [[15.0]] == [model.canaries for model in loader.models]
    assert 0.25 == lateness


def test_the_default_model_may_be_loaded_before_there_are_clients(pool, loader):
    """It is used like any other; closing the pool closes what is loaded."""

    async def run(models):
        with ExitStack() as stack:
            await models.lease(None, stack)

    models = pool(max_models=2)
    models.load_default()
    asyncio.run(run(models))
    models.close()

    assert ["a"] == loader.names
    assert loader.models[0].is_closed
    assert () == models.loaded


@pytest.mark.parametrize("names", ["", "aa"], ids=["none", "twice"])
def test_models_need_names_of_their_own(card, loader, names):
    """A client could not choose between two of the same name."""
    cards = [attrs.evolve(card, name=name) for name in names]

    with pytest.raises(OptionError, match="expected models of different names"):
        ModelPool(cards, loader, max_models=1, metrics=Metrics())
