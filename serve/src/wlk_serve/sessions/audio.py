"""The audio of a client's session: its streams, one after another, on one clock."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_core.audio.convert import validate_audio
from wlk_core.processor import StreamStats
from wlk_core.session.events import End, Endpoint, Failure
from wlk_serve.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wlk_core.session.events import Event
    from wlk_serve.models.stream import ServedStream, StreamSettings

_MAX_SEGMENTS = 4  # of a session; each holds a stream of the model and a detector, 3 MB and more
_WHOLE_SECONDS = 2  # of audio that are converted at once, as live clients send it
_PART_SECONDS = 0.25  # of longer audio, in one turn of the event loop
SAMPLE_BYTES = {"s16le": 2, "f32le": 4, "mulaw": 1, "alaw": 1}
_TIMES = {"start", "end", "time", "audio_time", "processed_up_to", "stable_up_to"}


@attrs.frozen
class SegmentEnd:
    """No event of the segment comes any more; what follows belongs to the next one."""

    is_cleared: bool  #: whether audio of it was dropped


@attrs.define(kw_only=True, eq=False)
class StreamSegment:
    """
    A stream and the part of the session's clock that it covers.

    Attributes:
        stream: receives the audio.
        settings: how the stream was opened.
        offset: seconds of the session at which the stream begins.
        commits: of the client, whose endpoints have not come yet.
        takes_audio: whether audio of the client goes there.
        is_cleared: whether events after those endpoints are dropped.
        events: those of a segment that is not the first yet.

    """

    stream: ServedStream
    settings: StreamSettings
    offset: float
    commits: int = 0
    takes_audio: bool = True
    is_cleared: bool = False
    events: deque[Event] = attrs.field(factory=deque)

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is handled any more."""
        return self.is_cleared and not self.commits


class SessionAudio:
    """
    The audio that a client sends, as its protocol uses it; a plain object without I/O.

    Audio opens a stream where none takes it.  Other settings, and a `clear`, end the stream, and
    the next audio opens another one: the events of each come after all of the one before, with
    times on the clock of the session.  Opening blocks, and audio of minutes takes long to convert,
    so that both are the work of the owner: what comes meanwhile waits for `open` and `proceed`.

    Args:
        settings: how the first stream is opened.

    """

    def __init__(self, settings: StreamSettings) -> None:
        self.settings = settings  #: of the next stream
        self.samples = 0  #: that streams have received
        self.segments: deque[StreamSegment] = deque()  #: whose events have not all come
        self.is_ended = False  #: whether no more audio is taken
        self.has_failed = False  #: whether a failure ended the session
        self._is_closed = False
        self._appended = 0  # samples, those that wait for `proceed` too
        self._rest = b""  # of a sample
        self._waiting: deque[Callable[[], object]] = deque()  # for the owner

    @property
    def seconds(self) -> float:
        """The length of the audio that was appended."""
        return self._appended / self.settings.rate

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more."""
        is_complete = self.is_ended and not self.segments and not self._waiting
        return is_complete or self.has_failed or self._is_closed

    @property
    def segment(self) -> StreamSegment:
        """The segment whose event is handled."""
        return self.segments[0]

    @property
    def open_segment(self) -> StreamSegment | None:
        """The segment that takes audio, which is the last one; None where the next audio opens."""
        return self.segments[-1] if self.segments and self.segments[-1].takes_audio else None

    def check_change(self) -> None:
        """Raise RequestError where a change of the settings would need one stream too many."""
        if self.open_segment is not None:
            self._check_count()

    def change(self, settings: StreamSettings) -> None:
        """Use *settings*, of the same encoding and rate once audio has come, from now on."""
        if settings != self.settings:
            self.settings = settings
            self._end_segment()

    def append(self, data: bytes) -> None:
        """
        Append audio in the form of the settings, one channel; after the end it is dropped.

        A part of a sample at the end waits for the rest of it.

        Raises:
            RequestError: it would open one more stream than a session may have.
            AudioFormatError: NaN or infinity; nothing of it was appended.

        """
        data = self._rest + data
        samples, rest = divmod(len(data), SAMPLE_BYTES[self.settings.encoding])
        whole = memoryview(data)[: len(data) - rest]
        if self.settings.encoding == "f32le":
            validate_audio(np.frombuffer(whole, np.float32))
        if samples and not self.is_ended:
            self._when_open(partial(self._receive, whole))
            self._appended += samples
        self._rest = data[len(whole) :]

    def mark(self, name: str) -> None:
        """Request a `Marked` event when all audio so far is decoded; raises as `append`."""
        self._when_open(lambda: self.segments[-1].stream.mark(name))

    def commit(self) -> StreamSegment | None:
        """
        End the utterance: an `Endpoint` of the reason "commit" follows its words.

        Returns:
            the segment that it ends; None where no words are to come, and no endpoint either.

        """
        self.take_waiting()
        if self._waiting:
            self._waiting.append(self.commit)
            return None
        if not self.segments:
            return None
        segment = self.segments[-1]
        if segment.takes_audio:
            segment.stream.commit()
        segment.commits += 1
        return segment

    def clear(self) -> None:
        """Drop all audio and marks after the last commit."""
        self.take_waiting()
        while self.segments and not self.segments[-1].commits:
            self.segments.pop().stream.close()
        if self.segments:
            self.segments[-1].is_cleared, self.segments[-1].takes_audio = True, False

    def end(self) -> None:
        """Take no more audio; all words follow.  May be called again."""
        self.take_waiting()
        if self._waiting:
            self._waiting.append(self.end)
            return
        self.is_ended = True
        self._end_segment()

    @property
    def is_waiting(self) -> bool:
        """Whether something waits, for a stream with `settings` where there is no open segment."""
        return bool(self._waiting) and not self.has_failed

    def open(self, stream: ServedStream) -> None:
        """Use *stream*."""
        offset = self.samples / self.settings.rate
        self.segments.append(StreamSegment(stream=stream, settings=self.settings, offset=offset))

    def proceed(self) -> None:
        """Do what waits in the open segment, a part of long audio; it waits on if it raises."""
        until = self.samples + round(_PART_SECONDS * self.settings.rate)
        while self.is_waiting and self.open_segment is not None and self.samples < until:
            waiting, self._waiting = self._waiting, deque()  # for what it adds
            try:
                waiting[0]()
                waiting.popleft()
            finally:
                waiting.extendleft(reversed(self._waiting))
                self._waiting = waiting

    def take_waiting(self) -> None:
        """Do at once all that waits and has an open segment; raises as `proceed`."""
        while self.is_waiting and self.open_segment is not None:
            self.proceed()

    def drop_waiting(self) -> bool:
        """Forget what waits; return whether the end of the audio did."""
        is_last = self.end in self._waiting
        self._waiting.clear()
        self._appended = self.samples
        return is_last

    def rewind(self) -> None:
        """Forget what waits and the part of a sample: audio comes again from a whole sample on."""
        self.drop_waiting()
        self._rest = b""

    def events(self, stream: ServedStream, events: Iterable[Event]) -> Iterator[Event | SegmentEnd]:
        """Yield what can be handled now that *events* of a stream have come."""
        segment = next((each for each in self.segments if each.stream is stream), None)
        if segment is not None:  # not cleared
            segment.events += events
        while self.segments and self.segments[0].events:
            yield from self._events(self.segments[0])

    def close(self) -> None:
        """Drop everything, as after a disconnect."""
        self._is_closed = True
        self._waiting.clear()
        for segment in self.segments:
            segment.stream.close()
        self.segments.clear()

    def _when_open(self, action: Callable[[], object]) -> None:
        if self.is_ended:
            return  # another stream would be opened, and nothing would end it
        if self.open_segment is None:
            self._check_count()
        elif not self._waiting:
            action()
            return
        self._waiting.append(action)

    def _check_count(self) -> None:
        if len(self.segments) >= _MAX_SEGMENTS:
            raise RequestError(
                f"{_MAX_SEGMENTS} streams of this session are not finished, and another "
                "configuration or a clear needs one more; wait for their words",
                status=429,
                code="rate_limit_exceeded",
                retry_after=1,
            )

    def _receive(self, audio: memoryview) -> None:
        size, rate = SAMPLE_BYTES[self.settings.encoding], self.settings.rate
        is_long = len(audio) > _WHOLE_SECONDS * rate * size
        part = bytes(audio[: round(_PART_SECONDS * rate) * size] if is_long else audio)
        self.segments[-1].stream.receive(part)
        self.samples += len(part) // size
        if rest := audio[len(part) :]:
            self._waiting.append(partial(self._receive, rest))

    def _end_segment(self) -> None:
        self.take_waiting()
        if (segment := self.open_segment) is not None:
            segment.takes_audio = False
            segment.stream.end_audio()

    def _events(self, segment: StreamSegment) -> Iterator[Event | SegmentEnd]:
        """Yield the events of the first segment, on the clock of the session."""
        has_ended = False
        while segment.events and not has_ended and not segment.is_over:
            event = _shifted(segment.events.popleft(), segment.offset)
            has_ended = isinstance(event, End)
            if isinstance(event, Failure) and event.is_final:
                self.has_failed = True
            if has_ended and not self.has_failed:
                for _ in range(segment.commits):  # of audio without an utterance
                    yield Endpoint(event.audio_time, "commit", event.audio_time)
            match event:
                case Endpoint(reason="commit" | "end") if segment.commits:
                    segment.commits -= 1  # the end of the audio answers a commit made after it
                    event = attrs.evolve(event, reason="commit")
            yield event
        if has_ended or segment.is_over:
            segment.stream.close()
            self.segments.remove(segment)
            yield SegmentEnd(segment.is_cleared)


def _shifted(value: Any, seconds: float) -> Any:
    """Return an event, or a part of one, with its times so many *seconds* later."""
    if not seconds:
        return value
    if isinstance(value, tuple):
        return tuple(_shifted(part, seconds) for part in value)
    if not attrs.has(type(value)) or isinstance(value, StreamStats):
        return value
    return attrs.evolve(
        value,
        **{
            name: part + seconds if name in _TIMES else _shifted(part, seconds)
            for name, part in attrs.asdict(value, recurse=False).items()
        },
    )
