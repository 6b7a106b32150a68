"""Declare the backend `realtime`, without importing its network client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.languages import NAMES
from wlk_core.plugins import BackendSpec, Option, hookimpl, standard_options

if TYPE_CHECKING:
    from collections.abc import Iterable

# Everything that a server can offer.  A loaded backend declares what its own server offers.
REALTIME = BackendSpec(
    name="realtime",
    api=1,
    summary="A model at a realtime server; sends the audio there",
    load="wlk_realtime.backend:load",
    options=(
        Option(
            name="api_key_env",
            default="WLK_REALTIME_API_KEY",
            help="name of the environment variable that holds the key for the server; leave the "
            "variable unset to send no key",
        ),
        Option(
            name="ca_file",
            help="file of certificates (PEM) to verify a wss:// server with; by default those of "
            "the system",
            former_names=("ca_cert", "cafile", "ssl_cert_file"),
        ),
        Option(
            name="dialect",
            default="auto",
            choices=("auto", "openai", "vllm"),
            help="protocol that the server must speak; auto detects it from the server's greeting",
        ),
        Option(
            name="timeout_seconds",
            type=float,
            default=30.0,
            minimum=0.1,
            maximum=600.0,
            help="seconds after which a call fails, connecting and reconnecting included",
        ),
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
    languages=tuple(NAMES),  # every code that a server can declare
    max_delay=3.0,
    max_concurrent_calls=64,  # a call mostly waits for the network
    preference=None,  # never a default, because it sends audio to another machine
    requires={"websockets": "pip install wlk-realtime"},
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backend of this distribution."""
    return (REALTIME,)
