"""One stream of a Realtime session, and the part of the session's clock that it covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_serve.protocols.realtime_marks import MARKS
from wlk_serve.protocols.streams import StreamConfig

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken, SpeakerSpan
    from wlk_serve.protocols.realtime_config import RealtimeConfig
    from wlk_serve.protocols.streams import AudioStream

__all__ = ["Run", "stream_config"]


@attrs.define(kw_only=True, eq=False)
class Run:
    """
    A stream and the part of the session's clock that it covers.

    Attributes:
        stream: receives the audio.
        offset: seconds of the session at which the stream begins.
        is_vad: whether voice activity detection ends its utterances.
        silence_seconds: after the end of speech, until a silence is certain.
        commits: of the client, whose endpoints have not come yet.
        takes_audio: whether audio of the client goes there.
        is_cleared: whether events after those endpoints are dropped.
        waiting: events of a run that is not the first yet.

    """

    stream: AudioStream
    offset: float
    is_vad: bool
    silence_seconds: float = 0.0
    commits: int = 0
    takes_audio: bool = True
    is_cleared: bool = False
    waiting: list[Event] = attrs.field(factory=list)

    @classmethod
    def of(cls, stream: AudioStream, config: StreamConfig, *, offset: float) -> Run:
        """Return the run of *stream*, which was opened with *config*."""
        gate = config.gate
        silence = 0.0 if gate is None else gate.pre_roll + gate.min_silence
        return cls(stream=stream, offset=offset, is_vad=gate is not None, silence_seconds=silence)

    def tokens(self, tokens: Iterable[ASRToken]) -> tuple[ASRToken, ...]:
        """Return *tokens* of the stream in seconds of the session."""
        return tuple(
            attrs.evolve(token, start=token.start + self.offset, end=token.end + self.offset)
            for token in tokens
        )

    def span(self, span: SpeakerSpan) -> SpeakerSpan:
        """Return *span* of the stream in seconds of the session."""
        return attrs.evolve(span, start=span.start + self.offset, end=span.end + self.offset)


def stream_config(config: RealtimeConfig) -> StreamConfig:
    """Return how a session with *config* opens a stream."""
    vad = config.turn_detection
    return StreamConfig(
        encoding=config.format.encoding,
        rate=config.format.rate,
        language=config.language,
        prompt=config.prompt,
        gate=None if vad is None else vad.gate_times(),
        leaves_out_pauses=vad is not None or MARKS not in config.include,
    )
