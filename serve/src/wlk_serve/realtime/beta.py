"""The beta shape of OpenAI Realtime, as a small table over the shape of today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_serve.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["BETA_UPDATE", "from_beta_session", "to_beta_messages"]

BETA_UPDATE = "transcription_session.update"
_FORMATS: Mapping[str, dict[str, Any]] = {
    "pcm16": {"type": "audio/pcm", "rate": 24_000},
    "g711_ulaw": {"type": "audio/pcmu"},
    "g711_alaw": {"type": "audio/pcma"},
}
_NAMES: Mapping[str, str] = {  # of the flat session, and below audio.input
    "input_audio_format": "format",
    "input_audio_transcription": "transcription",
    "turn_detection": "turn_detection",
    "input_audio_noise_reduction": "noise_reduction",
}
_TYPES: Mapping[str, str] = {
    "session.created": "transcription_session.created",
    "session.updated": "transcription_session.updated",
    "conversation.item.added": "conversation.item.created",
}
_NEWER_TYPES = {"conversation.item.done"}  # which strict clients of the beta refuse


def from_beta_session(session: object) -> object:
    """
    Return the session of today for a flat one; anything but an object is returned as it is.

    Raises:
        RequestError: an unknown format of audio.

    """
    if not isinstance(session, dict):
        return session
    result: dict[str, Any] = {}
    nested: dict[str, Any] = {}
    for name, value in session.items():
        if name not in _NAMES:
            result[name] = value
            continue
        if name == "input_audio_format":
            if not isinstance(value, str) or value not in _FORMATS:
                raise invalid(f"session.{name}", f"as {' or '.join(_FORMATS)}")
            nested["format"] = _FORMATS[value]
        else:
            nested[_NAMES[name]] = value
    return {**result, "audio": {"input": nested}} if nested else result


def to_beta_messages(messages: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return *messages* with the types and the session of the beta shape, which has fewer types."""
    for message in messages:
        if message["type"] not in _NEWER_TYPES:
            yield _to_beta_message(message)


def _to_beta_message(message: dict[str, Any]) -> dict[str, Any]:
    kind = _TYPES.get(message["type"], message["type"])
    if "session" not in message:
        return {**message, "type": kind}
    session = dict(message["session"])
    nested = session.pop("audio")["input"]
    session.pop("type")
    for flat, name in _NAMES.items():
        session[flat] = nested[name]
    session["input_audio_format"] = next(
        (name for name, value in _FORMATS.items() if value == nested["format"]), "pcm16"
    )
    return {**message, "type": kind, "session": session}
