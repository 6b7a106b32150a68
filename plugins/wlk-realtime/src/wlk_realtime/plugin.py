"""The backend of this distribution; importing this module brings no client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import BackendSpec, hookimpl, standard_options
from wlk_realtime.languages import LANGUAGES
from wlk_realtime.options import (
    API_KEY_ENV,
    BACKEND,
    BACKEND_OPTIONS,
    CA_FILE,
    DIALECT,
    START_SECONDS,
    TIMEOUT_SECONDS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["REALTIME", "wlk_backends"]

# What any server may have.  A loaded backend declares what its server does.
REALTIME = BackendSpec(
    name="realtime",
    api=1,
    summary="A model at a realtime server or in another environment; sends the audio there",
    load="wlk_realtime.backend:load",
    options=(
        API_KEY_ENV,
        CA_FILE,
        DIALECT,
        TIMEOUT_SECONDS,
        standard_options.PYTHON,
        BACKEND,
        BACKEND_OPTIONS,
        START_SECONDS,
        standard_options.PROMPT,
    ),
    capabilities=frozenset(
        {
            "hypothesis",
            "word-times",
            "probabilities",
            "language-detection",
            "language-forcing",
            "speaker-turns",
            "bounded-state",
        }
    ),
    languages=LANGUAGES,
    max_delay=3.0,
    max_concurrent_calls=64,  # a call waits for the network, not for this machine
    preference=None,  # never a default, because it sends audio away
    requires={"websockets": "pip install wlk-realtime"},
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backend of this distribution."""
    return (REALTIME,)
