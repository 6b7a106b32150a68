"""The options of the backend."""

from __future__ import annotations

from wlk_core.plugins import Option

__all__ = [
    "API_KEY_ENV",
    "BACKEND",
    "BACKEND_OPTIONS",
    "CA_FILE",
    "DIALECT",
    "START_SECONDS",
    "TIMEOUT_SECONDS",
]

API_KEY_ENV = Option(
    name="api_key_env",
    default="WLK_REALTIME_API_KEY",
    help="name of the environment variable that holds the key for the server; not set for none",
)

TIMEOUT_SECONDS = Option(
    name="timeout_seconds",
    type=float,
    default=30.0,
    minimum=0.1,
    maximum=600.0,
    help="seconds after which a call fails, connecting and connecting again included",
)

CA_FILE = Option(
    name="ca_file",
    help="file of the certificates (PEM) that a wss:// server is checked with; none takes those "
    "of the system",
    former_names=("ca_cert", "cafile", "ssl_cert_file"),
)

DIALECT = Option(
    name="dialect",
    default="auto",
    choices=("auto", "openai", "vllm"),
    help="messages that the server must speak; auto takes those of its greeting",
)

BACKEND = Option(
    name="backend",
    help="with python: the backend that runs there; one for each Python where they differ, "
    "separated by commas",
)

BACKEND_OPTIONS = Option(
    name="backend_options",
    default="",
    help="with python: options of the backend that runs there, KEY=VALUE KEY=VALUE",
)

START_SECONDS = Option(
    name="start_seconds",
    type=float,
    default=300.0,
    minimum=1.0,
    maximum=36_000.0,
    help="with python: seconds that a start may last, the load of the model included",
)
