"""The configuration of a Realtime session: what clients ask for, and what they get."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from wlk_serve.errors import invalid
from wlk_serve.models.stream import GateTimes, StreamSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    def sample_bytes(self) -> int:
        """Bytes of a sample."""
        return {"audio/pcm": 2, "audio/wlk-f32le": 4}.get(self.name, 1)

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
            gate=None if vad is None else vad.gate_times(),
            leaves_out_pauses=vad is not None or MARKS not in self.include,
        )

    def record(self) -> Json:
        """Return the fields of the session object that clients may set, and what was ignored."""
        transcription: Json = {"model": self.model, "language": self.language}
        if self.prompt is not None:
            transcription["prompt"] = self.prompt
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
    return _Update(config, card).apply(_object(session, "session"))


class _Update:
    """One pass over the fields of a session."""

    def __init__(self, config: RealtimeConfig, card: ModelCard) -> None:
        self._config = config
        self._card = card
        self._ignored: list[str] = []

    def apply(self, session: Json) -> RealtimeConfig:
        for name, value in session.items():
            match name:
                case "type":
                    _choice(value, ("transcription",), "session.type")
                case "audio":
                    self._audio(value)
                case "include":
                    self._include(value)
                case "id" | "object" | "expires_at" | "wlk":
                    pass  # fields of answers, which some clients send back
                case _:
                    self._ignore(name, value)
        return attrs.evolve(self._config, ignored=tuple(self._ignored))

    def _ignore(self, path: str, value: object) -> None:
        if value is not None and value != []:
            self._ignored.append(path[:200])

    def _set(self, **fields: Any) -> None:
        self._config = attrs.evolve(self._config, **fields)

    def _audio(self, value: object) -> None:
        for name, part in _object(value, "session.audio").items():
            if name == "input":
                self._input(part)
            else:
                self._ignore(f"audio.{name}", part)

    def _input(self, value: object) -> None:
        for name, part in _object(value, "session.audio.input").items():
            match name:
                case "format":
                    self._set(format=_format(part, self._config.format))
                case "transcription":
                    self._transcription(part)
                case "turn_detection":
                    self._turn_detection(part)
                case _:
                    self._ignore(f"audio.input.{name}", part)

    def _include(self, value: object) -> None:
        names = value if value is not None else []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise invalid("session.include", "as a list of strings", reprlib.repr(value))
        known = [name for name in dict.fromkeys(names) if name in _INCLUDES]
        for name in dict.fromkeys(names):
            if name not in known:
                self._ignored.append(f"include.{name}"[:200])
        self._set(include=tuple(known))

    def _transcription(self, value: object) -> None:
        path = "session.audio.input.transcription"
        if value is None:
            self._ignored.append("audio.input.transcription")
            return
        for name, part in _object(value, path).items():
            match name:
                case "model":
                    if part is not None:
                        self._card.check_name(part, param=f"{path}.model")
                case "language":
                    language = self._card.check_language(part or "", param=f"{path}.language")
                    self._set(language=language or self._card.language)
                case "languages" if isinstance(part, list) and len(part) == 1:
                    language = self._card.check_language(part[0], param=f"{path}.languages")
                    self._set(language=language or self._card.language)
                case "prompt" if self._card.takes_prompt:
                    if part is not None and not (isinstance(part, str) and _is_unicode(part)):
                        raise invalid(f"{path}.prompt", "as Unicode text", reprlib.repr(part))
                    self._set(prompt=part or None)
                case _:
                    self._ignore(f"audio.input.transcription.{name}", part)

    def _turn_detection(self, value: object) -> None:
        path = "session.audio.input.turn_detection"
        if value is None:
            self._set(turn_detection=None)
            return
        fields = _object(value, path)
        kind = _choice(fields.get("type", "server_vad"), ("server_vad", "semantic_vad"), path)
        vad = self._config.turn_detection or ServerVad()
        if kind == "semantic_vad":
            self._ignored.append("audio.input.turn_detection.type")
        for name, part in fields.items():
            if name == "threshold":
                vad = attrs.evolve(vad, threshold=_number(part, 1.0, f"{path}.{name}"))
            elif name in {"prefix_padding_ms", "silence_duration_ms"}:
                milliseconds = round(_number(part, _MAX_MILLISECONDS, f"{path}.{name}"))
                vad = attrs.evolve(vad, **{name: milliseconds})
            elif name != "type":
                self._ignore(f"audio.input.turn_detection.{name}", part)
        if vad.prefix_padding_ms > vad.silence_duration_ms:
            vad = attrs.evolve(vad, prefix_padding_ms=vad.silence_duration_ms)
            if "prefix_padding_ms" in fields:
                self._ignored.append("audio.input.turn_detection.prefix_padding_ms")
        self._set(turn_detection=vad)


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
