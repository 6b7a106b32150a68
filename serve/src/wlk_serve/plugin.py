"""The command that this distribution adds to ``wlk-core``, and the protocol of OpenAI's clients."""

from __future__ import annotations

from wlk_core.plugins import PluginSpec, hookimpl


@hookimpl
def wlk_commands() -> list[PluginSpec]:
    """Return the command ``serve``."""
    return [
        PluginSpec(
            kind="command",
            name="serve",
            api=1,
            summary="Serve a model to OpenAI's own clients and others.",
            load="wlk_serve.cli:serve",
        )
    ]


@hookimpl
def wlk_protocols() -> list[PluginSpec]:
    """Return the WebSocket of OpenAI's transcriptions."""
    return [
        PluginSpec(
            kind="protocol",
            name="openai",
            api=1,
            summary="OpenAI's realtime transcriptions: /v1/realtime",
            load="wlk_serve.realtime.route:routes",
        )
    ]
