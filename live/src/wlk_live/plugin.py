"""The commands that this distribution adds to ``wlk-core``."""

from __future__ import annotations

from wlk_core.plugins import PluginSpec, hookimpl

_COMMANDS = {
    "transcribe": ("transcribe", "Transcribe recordings and pipes, text as soon as it is final."),
    "listen": ("transcribe", "Transcribe a microphone, words as they are spoken."),
    "demo": ("transcribe", "Transcribe the bundled sample live, without a download."),
    "doctor": ("doctor", "Report what is installed, what works, and what to type next."),
    "config": ("configure", "Show or change the defaults in config.toml."),
}


@hookimpl
def wlk_commands() -> list[PluginSpec]:
    """Return the commands of recordings, microphones and the configuration."""
    return [
        PluginSpec(
            kind="command", name=name, api=1, summary=summary, load=f"wlk_live.cli.{module}:{name}"
        )
        for name, (module, summary) in _COMMANDS.items()
    ]
