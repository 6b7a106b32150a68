"""The models of a server, of which a few are loaded at a time."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from functools import partial
import logging
from typing import TYPE_CHECKING

from wlk_core.errors import OptionError, WLKError
from wlk_serve.errors import RequestError, as_failure
from wlk_serve.models.card import unknown_model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AsyncExitStack, ExitStack

    from wlk_serve.models.card import ModelCard
    from wlk_serve.models.service import Service
    from wlk_serve.ops.metrics import Metrics

__all__ = ["ModelPool"]

_LOGGER = logging.getLogger(__name__)
_PATIENCE_SECONDS = 8.0  # for a model that loads: clients of WebSockets give up after 10 s


class ModelPool:
    """
    Models of which at most a number is loaded; the one that was unused for longest makes room.

    A model with sessions or recordings is never unloaded: where every loaded model has some, a
    client of another model is refused and may try again.  A model is loaded in a thread, so that
    sessions of the others go on.

    Args:
        cards: the cards of all models, the default one first; their names differ.
        load: loads the model of a card; called in a thread.
        max_models: how many may be loaded at a time.
        metrics: what the server counts.
        patience: seconds for which a client waits for a model that loads; then it is refused, and
            the model is loaded when it comes again.

    Raises:
        OptionError: two models have the same name, or there are no models.

    """

    def __init__(
        self,
        cards: Sequence[ModelCard],
        load: Callable[[ModelCard], Service],
        *,
        max_models: int,
        metrics: Metrics,
        patience: float = _PATIENCE_SECONDS,
    ) -> None:
        self._declared = {card.name: card for card in cards}
        if not cards or len(self._declared) < len(cards):
            names = ", ".join(card.name for card in cards)
            raise OptionError(f"expected models of different names, got {names or 'none'}")
        self._load = load
        self._max_models = max_models
        self._patience = patience
        self._loaded: OrderedDict[str, Service] = OrderedDict()  # the oldest use first
        self._users: Counter[str] = Counter()  # of a model: leases, and clients that wait for it
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()  # to load: two at a time would need the memory of both
        self.metrics = metrics

    @classmethod
    def of(cls, service: Service) -> ModelPool:
        """Return the pool of one model that is always loaded; its owner closes it."""
        pool = cls([service.card], lambda _card: service, max_models=1, metrics=service.metrics)
        pool.load_default()
        return pool

    @property
    def cards(self) -> Sequence[ModelCard]:
        """The cards of all models; those that are loaded have what their backend declares."""
        return [
            self._loaded[name].card if name in self._loaded else card
            for name, card in self._declared.items()
        ]

    @property
    def loaded(self) -> tuple[str, ...]:
        """The names of the models that are loaded, the oldest use first."""
        return tuple(self._loaded)

    @property
    def loading(self) -> tuple[str, ...]:
        """The names of the models that are being loaded, or wait for their turn."""
        return tuple(self._loading)

    @property
    def has_room(self) -> bool:
        """Whether one more model can be loaded, where all places are taken for an unused one."""
        if len({*self._loaded, *self._loading}) < self._max_models:
            return True
        return any(not self._users[name] for name in self._loaded)

    @property
    def lateness(self) -> float:
        """The p99 lateness of the steps of sessions in seconds, of the latest model."""
        return max((service.lateness for service in self._loaded.values()), default=0.0)

    @property
    def is_hung(self) -> bool:
        """Whether an engine call of any model will not return."""
        return any(service.is_hung for service in self._loaded.values())

    def card(self, name: object) -> ModelCard:
        """
        Return the card of a model, the default one for None.

        Raises:
            RequestError: there is no such model (404), or *name* is not a string (400).

        """
        cards = self.cards
        if name is None:
            return cards[0]
        for card in cards:
            if card.has_name(name):
                return card
        raise unknown_model(name, cards)

    async def lease(self, name: object, stack: ExitStack | AsyncExitStack) -> Service:
        """
        Return the service of a model, which stays loaded until *stack* is closed.

        Raises:
            RequestError: as `card`; 503 where every loaded model is in use, where the model loads
                for longer than clients wait, or where it failed to load.

        """
        key = self.card(name).name
        self._users[key] += 1  # before anything is awaited, so that no other load unloads it
        stack.callback(self._users.subtract, [key])
        if key not in self._loaded:
            await self._wait_for(key)
        self._loaded.move_to_end(key)
        return self._loaded[key]

    async def check_canary(self, max_age: float) -> None:
        """
        Let a short session come through every loaded model.

        Raises:
            RequestError: it did not end in time, or it failed.

        """
        for name in self.loaded:
            if name in self._loaded:  # not unloaded while another one was checked
                await self._loaded[name].check_canary(max_age)

    def load_default(self) -> None:
        """Load the default model, which blocks; raises what its load raises."""
        card = next(iter(self._declared.values()))
        self._loaded[card.name] = self._load(card)

    def close(self) -> None:
        """Unload every model, which blocks; nothing may be leased any more."""
        while self._loaded:
            _, service = self._loaded.popitem()
            service.close()

    async def _wait_for(self, name: str) -> None:
        """Load a model, or wait for the load that runs; a client that leaves does not end it."""
        task = self._loading.get(name)
        if task is None:
            task = asyncio.create_task(self._load_in_turn(name))
            self._loading[name] = task
            task.add_done_callback(partial(self._end_load, name))
        done, _ = await asyncio.wait([task], timeout=self._patience)
        if not done:
            raise RequestError(
                f"the model {name!r} is being loaded; try again",
                status=503,
                code="model_loading",
                retry_after=5,
            )
        task.result()

    async def _load_in_turn(self, name: str) -> None:
        async with self._turn:
            while len(self._loaded) >= self._max_models:
                idle = next((other for other in self._loaded if not self._users[other]), None)
                if idle is None:
                    raise RequestError(
                        f"all {self._max_models} models that fit are in use: "
                        f"{', '.join(self._loaded)}; try again later",
                        status=503,
                        code="server_overloaded",
                        retry_after=5,
                    )
                service = self._loaded.pop(idle)
                _LOGGER.info("model %s is unloaded", idle)
                await service.wait_for_canary()
                await asyncio.to_thread(service.close)
            self._loaded[name] = await asyncio.to_thread(self._load_model, name)
            _LOGGER.info("model %s is loaded", name)

    def _load_model(self, name: str) -> Service:
        try:
            return self._load(self._declared[name])
        except WLKError:
            raise
        except BaseException as error:
            raise as_failure(error) from error

    def _end_load(self, name: str, task: asyncio.Task[None]) -> None:
        """Log a load that failed, because every client that waited for it may have left."""
        del self._loading[name]
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, RequestError):
            _LOGGER.error("model %s was not loaded: %s", name, error, exc_info=error)
