"""The backend of this distribution; importing this module does not import a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.languages import NAMES
from wlk_core.plugins import BackendSpec, Option, hookimpl, standard_options

if TYPE_CHECKING:
    from collections.abc import Iterable

# What any server may have.  A loaded backend declares what its server does.
REALTIME = BackendSpec(
    name="realtime",
    api=1,
    summary="A model at a realtime server; sends the audio there",
    load="wlk_realtime.backend:load",
    options=(
        Option(
            name="api_key_env",
            default="WLK_REALTIME_API_KEY",
            help="name of the environment variable that holds the key for the server; not set for "
            "none",
        ),
        Option(
            name="ca_file",
            help="file of the certificates (PEM) that a wss:// server is checked with; none takes "
            "those of the system",
            former_names=("ca_cert", "cafile", "ssl_cert_file"),
        ),
        Option(
            name="dialect",
            default="auto",
            choices=("auto", "openai", "vllm"),
            help="messages that the server must speak; auto takes those of its greeting",
        ),
        Option(
            name="timeout_seconds",
            type=float,
            default=30.0,
            minimum=0.1,
            maximum=600.0,
            help="seconds after which a call fails, connecting and connecting again included",
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
    languages=tuple(NAMES),  # what a server may declare
    max_delay=3.0,
    max_concurrent_calls=64,  # a call waits for the network, not for this machine
    preference=None,  # never a default, because it sends audio away
    requires={"websockets": "pip install wlk-realtime"},
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backend of this distribution."""
    return (REALTIME,)
