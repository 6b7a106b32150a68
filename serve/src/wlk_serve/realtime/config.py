"""The configuration of a Realtime session: parse what clients request, and report what is used."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import attrs
import msgspec
from msgspec import Meta

from wlk_live.language_choice import OPTION, forced_language
from wlk_live.vad import GateParameters
from wlk_serve.errors import converted, invalid
from wlk_serve.protocols import StreamOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wlk_live.audio.pcm import Encoding
    from wlk_serve.protocols import ModelCard
    from wlk_serve.protocols.options import Filters

LOGPROBS = "item.input_audio_transcription.logprobs"
HYPOTHESIS = "wlk.hypothesis"
MARKS = "wlk.marks"
TRANSLATION = "wlk.translation"
LAG = "wlk.lag"
_INCLUDES = {LOGPROBS, HYPOTHESIS, MARKS, TRANSLATION, LAG}

Json: TypeAlias = "dict[str, Any]"

_ENCODINGS: Mapping[str, Encoding] = {
    "audio/pcm": "s16le",
    "audio/pcmu": "mulaw",
    "audio/pcma": "alaw",
    "audio/wlk-f32le": "f32le",  # this server's own: float32 samples, without rounding to 16 bits
}
# The beta of OpenAI's API had these fields in the session itself, and these names of formats.
_BETA_FIELDS = {
    "input_audio_format": "audio.input.format",
    "input_audio_transcription": "audio.input.transcription",
    "input_audio_noise_reduction": "audio.input.noise_reduction",
    "turn_detection": "audio.input.turn_detection",
}
_BETA_FORMATS = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
_G711_RATE = 8_000
_OBJECTS = {"audio", "audio.input", "audio.input.transcription", "wlk"}
_ANSWERS = {"id", "object", "expires_at", "wlk"}  # some clients send these back to the server


class AudioFormat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    The format of appended audio; `rate` is in samples per second.

    A field that is not here is an error: with `sample_rate` ignored, audio would be read wrongly.
    """

    type: str = "audio/pcm"
    channels: Literal[1] = 1
    rate: Annotated[int, Meta(ge=8_000, le=48_000)] = 24_000  # OpenAI's own clients send this rate

    @property
    def encoding(self) -> Encoding:
        """The encoding, as wlk_live names it."""
        return _ENCODINGS[self.type]

    def record(self) -> Json:
        """Return the JSON object, without a rate for G.711, which has only one."""
        has_rate = self.encoding not in {"mulaw", "alaw"}
        return {"type": self.type, **({"rate": self.rate} if has_rate else {})}


class ServerVad(msgspec.Struct, frozen=True, kw_only=True):
    """How voice activity ends utterances; the padding is shorter than the silence."""

    type: str = "server_vad"
    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.5
    prefix_padding_ms: Annotated[int, Meta(ge=0, le=60_000)] = 300
    silence_duration_ms: Annotated[int, Meta(ge=1, le=60_000)] = 500

    def gate(self) -> GateParameters:
        """Return the gate's parameters: a pause of `silence_duration_ms` counts as a silence."""
        return GateParameters(
            threshold=self.threshold,
            silence_seconds=self.silence_duration_ms / 1000,
            pre_roll=self.prefix_padding_ms / 1000,
        )


# For a turn detector: the gate's silence was measured together with one, see docs/turns.md.
_SEMANTIC = ServerVad(type="semantic_vad", prefix_padding_ms=400, silence_duration_ms=1200)


@attrs.frozen(kw_only=True)
class RealtimeConfig:
    """The effective configuration; `language` is a code of the backend, or None to detect it."""

    model: str
    format: AudioFormat = attrs.field(factory=AudioFormat)
    language: str | None = None
    prompt: str | None = None
    keyterms: str | None = None
    turn_detection: ServerVad | None = attrs.field(factory=ServerVad)
    include: tuple[str, ...] = ()
    filters: Filters = None
    ignored: tuple[str, ...] = ()

    def stream_options(self) -> StreamOptions:
        """Return the settings with which the session opens its streams."""
        vad = self.turn_detection
        # A client that sets marks is a backend, whose own session has text filters.
        is_backend = MARKS in self.include
        return StreamOptions(
            encoding=self.format.encoding,
            rate=self.format.rate,
            language=self.language,
            prompt=self.prompt,
            keyterms=self.keyterms,
            gate=None if vad is None else vad.gate(),
            detects_turns=vad is not None and vad.type == "semantic_vad",
            leaves_out_pauses=vad is not None or not is_backend,
            translates=TRANSLATION in self.include,
            filters={} if is_backend and self.filters is None else self.filters,
        )

    def record(self) -> Json:
        """Return the session-object fields that clients can set, and the names of ignored ones."""
        transcription: Json = {"model": self.model, "language": forced_language(self.language)}
        if self.language != transcription["language"]:
            transcription["languages"] = str(self.language).split(",")
        if self.prompt is not None:
            transcription["prompt"] = self.prompt
        if self.keyterms is not None:
            transcription["keywords"] = self.keyterms.split(", ")
        vad = self.turn_detection
        filters = {} if self.filters is None else {"filters": self.filters}
        return {
            "type": "transcription",
            "audio": {
                "input": {
                    "format": self.format.record(),
                    "transcription": transcription,
                    "noise_reduction": None,
                    "turn_detection": None if vad is None else msgspec.structs.asdict(vad),
                }
            },
            "include": list(self.include) or None,
            "wlk": {"ignored": list(self.ignored), **filters},
        }


def default_config(card: ModelCard) -> RealtimeConfig:
    """Return the configuration of a session whose client sets nothing."""
    return RealtimeConfig(model=card.name, language=card.language)


def model_name(session: object) -> object:
    """Return the model that *session* names, or None; *session* need not be valid."""
    for key in ("audio", "input", "transcription", "model"):
        session = session.get(key) if isinstance(session, dict) else None
    return session


def update_config(config: RealtimeConfig, session: object, card: ModelCard) -> RealtimeConfig:
    """
    Return *config*, changed by the fields in the *session* object of a ``session.update``.

    A valid field that cannot be honoured is named in `ignored`, because some clients give up on any
    error.  Fields of the beta are translated.

    Raises:
        RequestError: a value is invalid or out of range, or names an unknown model or language.

    """
    ignored: list[str] = []
    changes: Json = {}
    for name, value in _fields(session, ""):
        path = f"session.{name}"
        match name:
            case "type":
                _check_choice(value, ["transcription"], path)
            case "include":
                names = dict.fromkeys(_names(value, path))
                known = _INCLUDES - ({TRANSLATION} if card.translates_to is None else set())
                ignored += [f"include.{each}" for each in names if each not in known]
                changes["include"] = tuple(each for each in names if each in known)
            case "audio.input.format":
                changes["format"] = _format(value, path)
            case "audio.input.turn_detection":
                changes["turn_detection"] = _turn_detection(value, config, card, ignored)
            case "wlk.filters":
                changes["filters"] = card.check_filters(value, param=path)
            case _ if name.partition(".")[0] not in _ANSWERS:
                change = _transcription(name, value, card)
                changes |= change or {}
                if change is None and value is not None and value != []:
                    ignored.append(name)
    changes["ignored"] = tuple(name[:200] for name in ignored)
    return attrs.evolve(config, **changes)


def _fields(value: object, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the path and value of each field in the object at *path*, nested ones included."""
    for name, part in converted(value, dict[str, Any], f"session.{path}".rstrip(".")).items():
        inner = f"{path}.{name}" if path else _BETA_FIELDS.get(name, name)
        if inner in _OBJECTS:
            yield from _fields({} if part is None else part, inner)
        else:
            yield inner, part


def _transcription(name: str, value: Any, card: ModelCard) -> Json | None:
    """Return the changes from a transcription field, or None if it cannot be honoured."""
    path = f"session.{name}"
    match name.removeprefix("audio.input.transcription."):
        case "model":
            return {} if value is None else {"model": card.named(value, param=path).name}
        case "language" if not card.ignores_language:
            return {"language": card.check_language(value or "", param=path)}
        case "languages" if card.takes(OPTION) or (
            isinstance(value, list) and len(value) == 1 and not card.ignores_language
        ):
            return {"language": card.check_language(",".join(_names(value, path)), param=path)}
        case "prompt" if card.takes("prompt"):
            return {"prompt": converted(value, str | None, path) or None}
        case "keywords" if card.takes("keyterms"):
            return {"keyterms": ", ".join(dict.fromkeys(_names(value, path))) or None}
    return None


def _names(value: object, path: str) -> list[str]:
    names: list[str] | None = converted(value, list[str] | None, path)
    return names or []


def _turn_detection(
    value: object, config: RealtimeConfig, card: ModelCard, ignored: list[str]
) -> ServerVad | None:
    """Return the voice activity detection in *value*; add what cannot be honoured to *ignored*."""
    if value is None:
        return None
    name = "audio.input.turn_detection"
    fields = converted(value, dict[str, Any], f"session.{name}")
    current = config.turn_detection or ServerVad()
    kind = fields.pop("type", current.type)
    _check_choice(kind, ["server_vad", "semantic_vad"], f"session.{name}.type")
    if kind == "semantic_vad" and not card.detects_turns:
        ignored.append(f"{name}.type")
        kind = "server_vad"
    if kind != current.type:
        current = _SEMANTIC if kind == "semantic_vad" else ServerVad()
    known = msgspec.structs.asdict(current)
    others = [each for each in fields if each not in known and fields[each] not in (None, [])]
    ignored += [f"{name}.{each}" for each in others]
    vad: ServerVad = converted(known | fields, ServerVad, f"session.{name}")
    if vad.prefix_padding_ms >= vad.silence_duration_ms:
        vad = msgspec.structs.replace(vad, prefix_padding_ms=vad.silence_duration_ms - 1)
        if "prefix_padding_ms" in fields:
            ignored.append(f"{name}.prefix_padding_ms")
    return vad


def _format(value: object, path: str) -> AudioFormat:
    if value is None:
        return AudioFormat()
    if isinstance(value, str):
        value = {"type": _BETA_FORMATS.get(value, value)}
    requested: AudioFormat = converted(value, AudioFormat, path)
    _check_choice(requested.type, list(_ENCODINGS), f"{path}.type")
    if "rate" in requested.record():
        return requested
    if isinstance(value, dict) and value.get("rate", _G711_RATE) != _G711_RATE:
        raise invalid(f"{path}.rate", f"as {_G711_RATE} for {requested.type}", str(requested.rate))
    return AudioFormat(type=requested.type, rate=_G711_RATE)


def _check_choice(value: object, choices: list[str], path: str) -> None:
    if value not in choices:
        raise invalid(path, f"as {' or '.join(choices)}", reprlib.repr(value))
