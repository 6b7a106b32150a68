"""The configuration of a Realtime session: what clients ask for, and what they get."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from wlk_serve.errors import invalid
from wlk_serve.models.stream import GateTimes, StreamSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wlk_core.audio.pcm import Encoding
    from wlk_serve.models.card import ModelCard

__all__ = [
    "HYPOTHESIS",
    "LOGPROBS",
    "MARKS",
    "AudioFormat",
    "RealtimeConfig",
    "ServerVad",
    "default_config",
    "model_name",
    "update_config",
]

LOGPROBS = "item.input_audio_transcription.logprobs"
HYPOTHESIS = "wlk.hypothesis"
MARKS = "wlk.marks"
_INCLUDES = {LOGPROBS, HYPOTHESIS, MARKS}
_TRANSCRIPTION = "session.audio.input.transcription"
_OBJECTS = {"session.audio", "session.audio.input"}
_RATES = (8_000, 48_000)  # samples a second; OpenAI's own clients send 24,000
_MAX_MILLISECONDS = 60_000
_QUIET_BELOW = 0.15  # Silero's own distance between the two thresholds
_HANG_OVER_PART = 0.75  # of the silence beyond the padding; the gate's own 0.6 of 0.8 s

Json: TypeAlias = "dict[str, Any]"
FormatName: TypeAlias = Literal["audio/pcm", "audio/pcmu", "audio/pcma", "audio/wlk-f32le"]

_ENCODINGS: Mapping[FormatName, Encoding] = {
    "audio/pcm": "s16le",
    "audio/pcmu": "mulaw",
    "audio/pcma": "alaw",
    "audio/wlk-f32le": "f32le",  # of this server: samples of a float32 backend, unrounded
}


@attrs.frozen(kw_only=True)
class AudioFormat:
    """The form of appended audio, one channel; `rate` in samples a second."""

    name: FormatName = "audio/pcm"
    rate: int = 24_000

    @property
    def encoding(self) -> Encoding:
        """The encoding of the core."""
        return _ENCODINGS[self.name]

    @property
    def is_g711(self) -> bool:
        """Whether it is a telephone's, of a fixed rate."""
        return self.name in {"audio/pcmu", "audio/pcma"}

    def record(self) -> Json:
        """Return the object of the wire; G.711 has no rate in it."""
        return {"type": self.name, **({} if self.is_g711 else {"rate": self.rate})}


@attrs.frozen(kw_only=True)
class ServerVad:
    """
    When an utterance ends by itself.

    A gate is certain of a silence only `hang_over` + `pre_roll` + `min_silence` after the last
    speech, so that this sum is `silence_duration_ms`.  Padding is therefore never longer than it.
    """

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500

    def gate_times(self) -> GateTimes:
        """Return the parameters of the gate."""
        rest_ms = self.silence_duration_ms - self.prefix_padding_ms
        return GateTimes(
            threshold=self.threshold,
            quiet_threshold=max(0.0, self.threshold - _QUIET_BELOW),
            pre_roll=self.prefix_padding_ms / 1000,
            hang_over=rest_ms * _HANG_OVER_PART / 1000,
            min_silence=rest_ms * (1 - _HANG_OVER_PART) / 1000,
        )

    def record(self) -> Json:
        """Return the object of the wire."""
        return {"type": "server_vad", **attrs.asdict(self)}


@attrs.frozen(kw_only=True)
class RealtimeConfig:
    """The effective configuration; `language` is a code of the backend, None to detect it."""

    model: str
    format: AudioFormat = attrs.field(factory=AudioFormat)
    language: str | None = None
    prompt: str | None = None
    keyterms: str | None = None
    turn_detection: ServerVad | None = attrs.field(factory=ServerVad)
    include: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def stream_settings(self) -> StreamSettings:
        """Return how a stream of the session is opened."""
        vad = self.turn_detection
        return StreamSettings(
            encoding=self.format.encoding,
            rate=self.format.rate,
            language=self.language,
            prompt=self.prompt,
            keyterms=self.keyterms,
            gate=None if vad is None else vad.gate_times(),
            leaves_out_pauses=vad is not None or MARKS not in self.include,
        )

    def record(self) -> Json:
        """Return the fields of the session object that clients may set, and what was ignored."""
        transcription: Json = {"model": self.model, "language": self.language}
        if self.prompt is not None:
            transcription["prompt"] = self.prompt
        if self.keyterms is not None:
            transcription["keywords"] = self.keyterms.split(", ")
        vad = self.turn_detection
        return {
            "type": "transcription",
            "audio": {
                "input": {
                    "format": self.format.record(),
                    "transcription": transcription,
                    "noise_reduction": None,
                    "turn_detection": None if vad is None else vad.record(),
                }
            },
            "include": list(self.include) or None,
            "wlk": {"ignored": list(self.ignored)},
        }


def default_config(card: ModelCard) -> RealtimeConfig:
    """Return the configuration of a session that no client has configured."""
    return RealtimeConfig(model=card.name, language=card.language)


def model_name(session: object) -> object:
    """Return what *session*, which need not be valid, names as its model; None for nothing."""
    for key in ("audio", "input", "transcription", "model"):
        session = session.get(key) if isinstance(session, dict) else None
    return session


def update_config(config: RealtimeConfig, session: object, card: ModelCard) -> RealtimeConfig:
    """
    Return *config* with the fields that are present in the *session* of a ``session.update``.

    A field that is right but cannot be honoured is named in `ignored`, because some clients end at
    any error.

    Raises:
        RequestError: a value of a wrong type or out of range, another model or another language.

    """
    ignored: list[str] = []
    for path, value in _fields(session, "session"):
        match path.removeprefix("session.").removeprefix("audio.input."):
            case "id" | "object" | "expires_at" | "wlk":
                pass  # fields of answers, which some clients send back
            case "type":
                _choice(value, ("transcription",), path)
            case "include":
                names = _names(value, path)
                ignored += [f"include.{name}" for name in names if name not in _INCLUDES]
                known = tuple(name for name in names if name in _INCLUDES)
                config = attrs.evolve(config, include=known)
            case "format":
                config = attrs.evolve(config, format=_format(value, config.format))
            case "turn_detection":
                vad = None if value is None else _server_vad(value, config.turn_detection, ignored)
                config = attrs.evolve(config, turn_detection=vad)
            case _:
                changes = _transcription(value, path, card)
                config = attrs.evolve(config, **(changes or {}))
                if changes is None and value != []:
                    ignored.append(path.removeprefix("session."))
    return attrs.evolve(config, ignored=tuple(name[:200] for name in ignored))


def _fields(value: object, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the fields of the object at *path*, and those of objects in it, by their paths."""
    for name, part in _object(value, path).items():
        inner = f"{path}.{name}"
        if inner in _OBJECTS or (inner == _TRANSCRIPTION and part is not None):
            yield from _fields(part, inner)
        else:
            yield inner, part


def _transcription(value: Any, path: str, card: ModelCard) -> Json | None:
    """Return what the field at *path* changes, None where it cannot be honoured."""
    match path.removeprefix(f"{_TRANSCRIPTION}."):
        case "model":
            if value is not None:
                card.check_name(value, param=path)
            return {}
        case "language":
            return {"language": card.check_language(value or "", param=path) or card.language}
        case "languages" if isinstance(value, list) and len(value) == 1:
            return {"language": card.check_language(value[0], param=path) or card.language}
        case "prompt" if card.takes_prompt:
            if value is not None and not (isinstance(value, str) and _is_unicode(value)):
                raise invalid(path, "as Unicode text", reprlib.repr(value))
            return {"prompt": value or None}
        case "keywords" if card.takes_keyterms:
            words = _names(value, path)
            if not all(map(_is_unicode, words)):
                raise invalid(path, "as Unicode text", reprlib.repr(value))
            return {"keyterms": ", ".join(words) or None}
    return {} if value is None and path != _TRANSCRIPTION else None


def _names(value: object, path: str) -> list[str]:
    names = [] if value is None else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise invalid(path, "as a list of strings", reprlib.repr(value))
    return list(dict.fromkeys(names))


def _server_vad(value: object, current: ServerVad | None, ignored: list[str]) -> ServerVad:
    """Return what *value* asks for; append what cannot be honoured to *ignored*."""
    path, ignored_path = "session.audio.input.turn_detection", "audio.input.turn_detection"
    fields = _object(value, path)
    kind = _choice(fields.get("type", "server_vad"), ("server_vad", "semantic_vad"), path)
    vad = current or ServerVad()
    if kind == "semantic_vad":
        ignored.append(f"{ignored_path}.type")
    for name, part in fields.items():
        if name == "threshold":
            vad = attrs.evolve(vad, threshold=_number(part, 1.0, f"{path}.{name}"))
        elif name in {"prefix_padding_ms", "silence_duration_ms"}:
            milliseconds = round(_number(part, _MAX_MILLISECONDS, f"{path}.{name}"))
            vad = attrs.evolve(vad, **{name: milliseconds})
        elif name != "type" and part is not None and part != []:
            ignored.append(f"{ignored_path}.{name}")
    if vad.prefix_padding_ms > vad.silence_duration_ms:
        vad = attrs.evolve(vad, prefix_padding_ms=vad.silence_duration_ms)
        if "prefix_padding_ms" in fields:
            ignored.append(f"{ignored_path}.prefix_padding_ms")
    return vad


def _format(value: object, current: AudioFormat) -> AudioFormat:
    path = "session.audio.input.format"
    if value is None:
        return AudioFormat()
    fields = _object(value, path)
    name = _choice(fields.get("type", current.name), tuple(_ENCODINGS), f"{path}.type")
    if AudioFormat(name=name).is_g711:
        return AudioFormat(name=name, rate=8_000)
    rate = fields.get("rate", 24_000)
    is_whole = isinstance(rate, int) and not isinstance(rate, bool)
    if not is_whole or not _RATES[0] <= rate <= _RATES[1]:
        expected = f"as a whole number from {_RATES[0]} to {_RATES[1]}"
        raise invalid(f"{path}.rate", expected, reprlib.repr(rate))
    return AudioFormat(name=name, rate=rate)


def _is_unicode(text: str) -> bool:
    """Return whether *text* has no lone surrogates, which JSON can carry and no model takes."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _object(value: object, path: str) -> Json:
    if not isinstance(value, dict):
        raise invalid(path, "as an object", reprlib.repr(value))
    return value


def _choice(value: object, choices: tuple[str, ...], path: str) -> Any:
    if not isinstance(value, str) or value not in choices:
        raise invalid(path, f"as {' or '.join(choices)}", reprlib.repr(value))
    return value


def _number(value: object, highest: float, path: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= highest:
        return float(value)
    raise invalid(path, f"as a number from 0 to {highest:g}", reprlib.repr(value))
