"""Declare the protocols, without importing them or the server."""

from __future__ import annotations

from wlk_core.plugins import PluginSpec, hookimpl

_SUMMARIES = {
    "asr": "WhisperLiveKit's clients: /asr",
    "deepgram": "Deepgram's clients: live transcription, Flux and recordings",
    "jitsi": "Jitsi meetings, transcribed by Jigasi: /streaming-whisper/ws",
    "twilio": "phone calls by Twilio's media streams: /twilio/media, followed at /twilio/calls",
    "vllm": "vLLM's realtime clients: /vllm/v1/realtime",
    "wyoming": "Home Assistant, on a port of its own: wlk-serve --listen wyoming=PORT",
}


@hookimpl(optionalhook=True)  # the server adds the specification
def wlk_protocols() -> list[PluginSpec]:
    """Return the protocols."""
    return [
        PluginSpec(
            kind="protocol",
            name=name,
            api=1,
            summary=summary,
            load=f"wlk_protocols.{name}.routes:routes",
        )
        for name, summary in _SUMMARIES.items()
    ]
