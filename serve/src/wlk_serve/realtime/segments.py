"""The streams of a Realtime session, and the part of the session's clock that each covers."""

from __future__ import annotations

from collections import deque
from itertools import takewhile
from typing import TYPE_CHECKING

import attrs

from wlk_core.processor import StreamStats
from wlk_core.session.events import Marked
from wlk_core.tokens import Transcript
from wlk_serve.errors import RequestError
from wlk_serve.realtime.config import MARKS
from wlk_serve.realtime.streams import StreamConfig

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken, SpeakerSpan
    from wlk_serve.models.stream import ServedStream
    from wlk_serve.realtime.config import RealtimeConfig

__all__ = ["StreamSegment", "StreamSegments", "stream_config"]

_MAX_SEGMENTS = 4  # of a session; each holds a stream of the model and a detector, 3 MB and more


@attrs.define(kw_only=True, eq=False)
class StreamSegment:
    """
    A stream and the part of the session's clock that it covers.

    Attributes:
        stream: receives the audio.
        offset: seconds of the session at which the stream begins.
        is_vad: whether voice activity detection ends its utterances.
        silence_seconds: after the end of speech, until a silence is certain.
        commits: of the client, whose endpoints have not come yet; the end of the stream is the
            endpoint of a commit that came after it.
        takes_audio: whether audio of the client goes there.
        is_cleared: whether events after those endpoints are dropped.
        has_text: whether words of it were committed.
        waiting: events of a segment that is not the first yet.
        late_commits: seconds of the audio of commits whose items begin after those of an earlier
            stream, because voice activity detection has not ended its utterances yet.
        marks: answers to the marks that have not come back, as if all audio before were dropped.

    """

    stream: ServedStream
    offset: float
    is_vad: bool
    silence_seconds: float = 0.0
    commits: int = 0
    takes_audio: bool = True
    is_cleared: bool = False
    has_text: bool = False
    waiting: list[Event] = attrs.field(factory=list)
    late_commits: list[float] = attrs.field(factory=list)
    marks: deque[Marked] = attrs.field(factory=deque)

    def commit(self) -> None:
        """End the utterance; once the audio has ended, that end is the end of the utterance too."""
        if self.takes_audio:
            self.stream.commit()
        self.commits += 1

    def mark(self, name: str, time: float) -> None:
        """Request an answer to the mark *name* at *time* seconds of the session."""
        self.stream.mark(name)
        self.marks.append(
            Marked(
                name=name,
                transcript=Transcript(()),
                processed_up_to=time,
                stable_up_to=time,
                stats=StreamStats(),
                audio_time=time,
            )
        )

    def pop_mark(self) -> None:
        """Forget the oldest mark, which has come back."""
        if self.marks:
            self.marks.popleft()

    def tokens(self, tokens: Iterable[ASRToken]) -> tuple[ASRToken, ...]:
        """Return *tokens* of the stream in seconds of the session."""
        return tuple(
            attrs.evolve(token, start=token.start + self.offset, end=token.end + self.offset)
            for token in tokens
        )

    def span(self, span: SpeakerSpan) -> SpeakerSpan:
        """Return *span* of the stream in seconds of the session."""
        return attrs.evolve(span, start=span.start + self.offset, end=span.end + self.offset)


class StreamSegments:
    """The segments of a session that are not finished, in their order."""

    def __init__(self) -> None:
        self._segments: deque[StreamSegment] = deque()

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first(self) -> StreamSegment | None:
        """The segment whose events are applied now; those of the others wait."""
        return self._segments[0] if self._segments else None

    @property
    def last(self) -> StreamSegment | None:
        """The segment of the newest audio."""
        return self._segments[-1] if self._segments else None

    @property
    def open(self) -> StreamSegment | None:
        """The segment that takes audio, which is the last one."""
        return self._segments[-1] if self._segments and self._segments[-1].takes_audio else None

    @property
    def has_detection(self) -> bool:
        """Whether voice activity detection ends the utterances of any segment."""
        return any(segment.is_vad for segment in self._segments)

    def find(self, stream: ServedStream) -> StreamSegment | None:
        """Return the segment of *stream*, None where it is finished."""
        return next((segment for segment in self._segments if segment.stream is stream), None)

    @property
    def is_full(self) -> bool:
        """Whether no other stream may be opened."""
        return len(self._segments) >= _MAX_SEGMENTS

    def check_count(self) -> None:
        """
        Check that another stream may be opened.

        Raises:
            RequestError: too many streams are not finished.

        """
        if self.is_full:
            raise RequestError(
                f"{_MAX_SEGMENTS} streams of this session are not finished, and another "
                "configuration or a clear needs one more; wait for their words",
                status=429,
                code="rate_limit_exceeded",
                retry_after=1,
            )

    def begin(self, stream: ServedStream, config: StreamConfig, *, offset: float) -> StreamSegment:
        """Append the segment of *stream*, opened with *config*, which takes audio from now on."""
        gate = config.gate
        silence = 0.0 if gate is None else gate.pre_roll + gate.min_silence
        segment = StreamSegment(
            stream=stream, offset=offset, is_vad=gate is not None, silence_seconds=silence
        )
        self._segments.append(segment)
        return segment

    def end_audio(self) -> None:
        """End the audio of the segment that takes it; may be called again."""
        segment = self.open
        if segment is not None:
            segment.takes_audio = False
            segment.stream.end_audio()

    def clear(self) -> list[Marked]:
        """
        Drop all audio after the last commit; return answers to the marks in it.

        Without any, the answers follow those of a segment that is left.
        """
        marks: deque[Marked] = deque()
        while self._segments and not self._segments[-1].commits:
            segment = self._segments.pop()
            segment.stream.close()
            marks.extendleft(reversed(segment.marks))
        if not self._segments:
            return list(marks)
        self._segments[-1].is_cleared, self._segments[-1].takes_audio = True, False
        self._segments[-1].marks += marks
        return []

    def finish(self, segment: StreamSegment) -> None:
        """Close the stream of *segment* and forget it."""
        segment.stream.close()
        self._segments.remove(segment)

    def take_late_commits(self) -> list[float]:
        """Return and forget the late commits of the segments before the next one with detection."""
        seconds: list[float] = []
        for segment in takewhile(lambda segment: not segment.is_vad, self._segments):
            seconds += segment.late_commits
            segment.late_commits = []
        return seconds

    def close(self) -> None:
        """Close all streams."""
        for segment in self._segments:
            segment.stream.close()
        self._segments.clear()


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
