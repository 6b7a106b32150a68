"""The models of a replica: one that is always loaded, or a few of several."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import attrs

from wlk_core.config import choose_settings
from wlk_serve.models.card import ModelCard
from wlk_serve.models.diarizers import DiarizerSource
from wlk_serve.models.pool import ModelPool
from wlk_serve.models.service import Service
from wlk_serve.ops.metrics import Metrics

if TYPE_CHECKING:
    from wlk_core.config import Settings
    from wlk_core.registry import Registry
    from wlk_serve.ray.settings import ReplicaSettings

__all__ = ["model_pool"]


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
