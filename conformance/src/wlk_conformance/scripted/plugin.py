"""The plugin that offers the scripted backend: no model, coded audio, every rule kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import attrs

from wlk_core.backend import Capability
from wlk_core.plugins import API_VERSION, BackendSpec, hookimpl
from wlk_core.standard_options import TICK_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable

SCRIPTED_SPEC = BackendSpec(
    name="scripted",
    api=API_VERSION,
    summary="reads coded audio: no model, the reference for the contract",
    load="wlk_conformance.scripted.backend:load",
    options=(attrs.evolve(TICK_SECONDS, minimum=0.1, policies=("local-agreement", "alignatt")),),
    capabilities=frozenset(get_args(Capability)) - {"translation", "batching"},
    languages=("en", "de"),
    policies=("local-agreement", "alignatt", "native", "long-form"),  # every kind of recognizer
    models={"digits": "bundled"},
    default_model="digits",
    max_delay=3.0,
    preference=-100,  # never the default if a backend with a model is installed
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Offer the scripted backend."""
    return [SCRIPTED_SPEC]
