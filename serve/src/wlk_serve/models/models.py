"""The models of a server, of which a client may choose one by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AsyncExitStack, ExitStack

    from wlk_serve.models.card import ModelCard
    from wlk_serve.models.service import Service
    from wlk_serve.ops.metrics import Metrics

__all__ = ["Models", "OneModel"]


class Models(Protocol):
    """What a server serves; its methods are called in the event loop."""

    @property
    def metrics(self) -> Metrics:
        """What the server counts."""
        ...

    @property
    def cards(self) -> Sequence[ModelCard]:
        """The cards of all models, the default one first."""
        ...

    @property
    def lateness(self) -> float:
        """Seconds after their deadline at which one step in a hundred ends, of the latest model."""
        ...

    def card(self, name: object) -> ModelCard:
        """
        Return the card of a model; that of the default one for None.

        Raises:
            RequestError: there is no such model (404), or *name* is no text (400).

        """
        ...

    async def lease(self, name: object, stack: ExitStack | AsyncExitStack) -> Service:
        """
        Return the service of a model, which stays loaded until *stack* is closed.

        Raises:
            RequestError: as `card`; or the model cannot be loaded now (503).

        """
        ...

    async def check_canary(self, max_age: float) -> None:
        """
        Let a short session come through every loaded model, as `Service.check_canary` does.

        Raises:
            RequestError: it did not end in time, or it failed.

        """
        ...


class OneModel:
    """The only model of a server, which is always loaded."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def metrics(self) -> Metrics:
        """What the server counts."""
        return self._service.metrics

    @property
    def cards(self) -> Sequence[ModelCard]:
        """The card of the model."""
        return (self._service.card,)

    @property
    def lateness(self) -> float:
        """Seconds after their deadline at which one step in a hundred ends."""
        return self._service.lateness

    def card(self, name: object) -> ModelCard:
        """Return the card; raises RequestError for another name than the model's."""
        if name is not None:
            self._service.card.check_name(name)
        return self._service.card

    async def lease(self, name: object, stack: ExitStack | AsyncExitStack) -> Service:
        """Return the service; raises as `card`."""
        del stack
        self.card(name)
        return self._service

    async def check_canary(self, max_age: float) -> None:
        """Let a short session come through; raises RequestError where it does not."""
        await self._service.check_canary(max_age)
