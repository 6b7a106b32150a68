"""The options of the backend."""

from __future__ import annotations

from wlk_core.plugins import Option

__all__ = ["API_KEY_ENV", "DIALECT", "TIMEOUT_SECONDS"]

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

DIALECT = Option(
    name="dialect",
    default="auto",
    choices=("auto", "openai", "vllm"),
    help="messages that the server must speak; auto takes those of its greeting",
)
