"""What a session or a recording asks of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wlk_live.audio.pcm import Encoding
    from wlk_live.vad import GateParameters

Task: TypeAlias = Literal["transcribe", "translate"]
#: Options of text filters by their names, as a client chooses them; None for those of the server.
Filters: TypeAlias = "Mapping[str, Mapping[str, Any]] | None"
ResponseFormat: TypeAlias = Literal["json", "text", "srt", "verbose_json", "vtt", "diarized_json"]


@attrs.frozen(kw_only=True)
class StreamOptions:
    """
    How to open a stream.

    Attributes:
        encoding: encoding of the audio, which has one channel.
        rate: samples per second.
        language: a language code of the backend; None to detect the language.
        prompt: text given to the decoder before the audio; None for none.
        keyterms: names and terms to listen for, separated by commas; None for none.
        gate: parameters of the gate; None for the defaults.
        leaves_out_pauses: whether there is a gate.  Without one the model gets all audio, because
            the client has its own gate.
        detects_turns: whether the server's turn detector, if it has one, also ends utterances.
        translates: whether commits are translated, if the server has a translator.
        filters: the text filters, as `ModelCard.check_filters` returns them.

    """

    encoding: Encoding = "s16le"
    rate: int = 16_000
    language: str | None = None
    prompt: str | None = None
    keyterms: str | None = None
    gate: GateParameters | None = None
    leaves_out_pauses: bool = True
    detects_turns: bool = True
    translates: bool = False
    filters: Filters = None


@attrs.frozen(kw_only=True)
class TranscriptionRequest:
    """
    A client's request without its recording.

    Attributes:
        model: the name of the model's card.
        filters: as in `StreamOptions`; a translation has none.
        granularities: which parts verbose_json has: "word", "segment" or both.
        is_multichannel: whether each channel of the recording is transcribed by itself, and not
            their mean.
        header: prepended to a body of raw samples, see `wlk_live.audio.wave_header`, unless the
            body begins with the header of a recording.
        ignored: names of fields that this server cannot honour, at most 20 that fit a header.

    """

    task: Task
    model: str = ""
    language: str | None = None
    prompt: str | None = None
    keyterms: str | None = None
    filters: Filters = None
    response_format: ResponseFormat = "json"
    granularities: frozenset[str] = frozenset({"segment"})
    has_logprobs: bool = False
    streams: bool = False
    is_multichannel: bool = False
    header: bytes = b""
    ignored: tuple[str, ...] = ()

    @property
    def has_speakers(self) -> bool:
        """Whether the answer needs a diarizer."""
        return self.response_format == "diarized_json"
