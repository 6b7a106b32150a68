"""The audio of a client's session: consecutive streams on one clock."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol

import attrs

from wlk_live.audio import PcmReader
from wlk_live.session.events import End, Endpoint, Failure
from wlk_serve.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from wlk_live.session.events import Event
    from wlk_serve.protocols.options import StreamOptions

_MAX_SEGMENTS = 4  # per session; each holds a stream and a voice detector, at least 3 MB
_WHOLE_SECONDS = 2  # audio up to this length, as live clients send it, is converted in one piece
_PART_SECONDS = 0.25  # of longer audio, how much is converted in one turn of the event loop
_TURN_ACTIONS = 8  # in one turn: pieces of compressed audio take time even if they are empty


class AudioStream(Protocol):
    """What a session's audio asks of the stream that receives it."""

    def receive(self, audio: NDArray[np.float32]) -> None:
        """Append audio, at the rate of the stream's options."""

    def skip(self, seconds: float) -> None:
        """Declare that audio was not captured: the utterance ends, and the clock moves on."""

    def commit(self) -> None:
        """End the utterance."""

    def mark(self, name: str) -> None:
        """Request a `Marked` event once all audio so far is decoded."""

    def end_audio(self) -> None:
        """Declare that no more audio will come."""

    def close(self) -> None:
        """Drop audio that is not transcribed yet."""


@attrs.frozen
class SegmentEnd:
    """The segment has no more events; later events belong to the next segment."""

    is_cleared: bool  #: whether some of its audio was dropped


@attrs.define(kw_only=True, eq=False)
class StreamSegment:
    """
    A stream, and where it begins on the session's clock.

    Attributes:
        stream: receives the audio.
        options: how the stream was opened.
        offset: session time in seconds at which the stream begins.
        commits: number of the client's commits whose endpoints have not come yet.
        takes_audio: whether the client's audio goes to this stream.
        is_cleared: whether events after the endpoints of those commits are dropped.
        events: held back until the earlier segments are over.

    """

    stream: AudioStream
    options: StreamOptions
    offset: float
    commits: int = 0
    takes_audio: bool = True
    is_cleared: bool = False
    events: deque[Event] = attrs.field(factory=deque)

    @property
    def is_over(self) -> bool:
        """Whether all further events are dropped."""
        return self.is_cleared and not self.commits


class SessionAudio:
    """
    The audio of one client, for its protocol to fill; a plain object without I/O.

    The first audio needs a new stream, and so does the first audio after a change of options or a
    `clear`, which end the stream.  All events of a stream precede those of the next one; their
    times are on the session's clock.  Opening a stream blocks and converting minutes of audio takes
    long, so the owner does both: calls that come meanwhile wait for `open` and `proceed`.

    Args:
        options: how the first stream is opened.

    """

    def __init__(self, options: StreamOptions) -> None:
        self.options = options  #: how the next stream is opened
        self.samples = 0  #: received by streams, or skipped
        self.segments: deque[StreamSegment] = deque()  #: those with events to come
        self.is_ended = False  #: whether no more audio is taken
        self.has_failed = False  #: whether a failure ended the session
        self._is_closed = False
        self._appended = 0  # samples, including those that wait for `proceed`
        self._reader = PcmReader(options.encoding, rate=options.rate)
        self._waiting: deque[Callable[[], object]] = deque()  # actions for `proceed`

    @property
    def seconds(self) -> float:
        """The length of the appended audio."""
        return self._appended / self.options.rate

    @property
    def is_over(self) -> bool:
        """Whether no event will come any more."""
        is_complete = self.is_ended and not self.segments and not self._waiting
        return is_complete or self.has_failed or self._is_closed

    @property
    def segment(self) -> StreamSegment:
        """The segment whose event is being handled."""
        return self.segments[0]

    @property
    def open_segment(self) -> StreamSegment | None:
        """The last segment, if it takes audio; None if the next audio needs a new stream."""
        return self.segments[-1] if self.segments and self.segments[-1].takes_audio else None

    @property
    def is_full(self) -> bool:
        """Whether another stream has to wait until an earlier one is over."""
        return len(self.segments) >= _MAX_SEGMENTS

    def change(self, options: StreamOptions) -> None:
        """Use *options* from now on; after the first audio, encoding and rate must not change."""
        if options != self.options:
            if (options.encoding, options.rate) != (self.options.encoding, self.options.rate):
                self._reader = PcmReader(options.encoding, rate=options.rate)
            self.options = options
            self._end_segment()

    def append(self, data: bytes, *, is_whole: bool = False) -> bool:
        """
        Append one channel of audio, encoded as in the options; return whether audio still counts.

        After the end or a failure it is dropped.  The beginning of a sample waits for its rest, but
        with *is_whole*, which is for protocols that allow no such cut, it is an error.

        Raises:
            AudioFormatError: it contains NaN or infinity, or begins a recording, such as MP3;
                nothing was appended.
            RequestError: *is_whole*, and it ends inside a sample; nothing was appended.

        """
        size = self._reader.sample_bytes
        if is_whole and len(data) % size:
            raise invalid("audio", f"in whole samples of {size} bytes", f"{len(data)} bytes")
        if self.is_ended or self.has_failed or self._is_closed:
            return False
        segment = self.open_segment
        whole_samples = _WHOLE_SECONDS * self.options.rate
        # Long G.711 is read part by part: at once, 11 MiB of it took 26 to 92 ms in the event loop,
        # most of that to get 44 MiB of new memory.
        is_later = size == 1 and len(data) > whole_samples
        audio = memoryview(data) if is_later else self._reader.read(data)
        if segment is None or self._waiting:
            if len(audio):  # otherwise it would open a stream for nothing
                self._waiting.append(partial(self._receive, audio))
        elif isinstance(audio, memoryview) or len(audio) > whole_samples:
            self._receive(audio)
        elif len(audio):
            segment.stream.receive(audio)
            self.samples += len(audio)
        self._appended += len(audio)
        return True

    def append_pieces(self, pieces: Iterator[bytes]) -> None:
        """
        Append audio as `append` does, in pieces that *pieces* decodes: none now, all by `proceed`.

        An error that *pieces* raises is raised by `proceed`.
        """
        if self.is_ended or self.has_failed or self._is_closed:
            return
        self._waiting.append(partial(self._take_piece, pieces))

    def skip(self, seconds: float) -> None:
        """Declare that *seconds* of audio were not captured: the utterance ends."""
        if self.is_ended or self.has_failed or self._is_closed:
            return
        samples = round(seconds * self.options.rate)
        if self._waiting:
            self._waiting.append(partial(self._skip, samples))
        else:
            self._skip(samples)
        self._appended += samples

    def mark(self, name: str) -> None:
        """Request a `Marked` event once all audio so far is decoded."""
        if self.is_ended:
            return  # it would open another stream, which nothing would end
        segment = self.open_segment
        if segment is None or self._waiting:
            self._waiting.append(lambda: self.segments[-1].stream.mark(name))
        else:
            segment.stream.mark(name)

    def commit(self) -> StreamSegment | None:
        """
        End the utterance: an `Endpoint` with the reason "commit" follows its words.

        Returns:
            the segment of the utterance; None if the commit is queued or no endpoint will come.

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
        """Drop all audio and marks since the last commit."""
        self.take_waiting()
        while self.segments and not self.segments[-1].commits:
            self.segments.pop().stream.close()
        if self.segments:
            last = self.segments[-1]
            last.is_cleared = True
            last.takes_audio = False

    def end(self) -> None:
        """Take no more audio; the remaining words still follow.  May be called again."""
        self.take_waiting()
        if self._waiting:
            self._waiting.append(self.end)
            return
        self.is_ended = True
        self._end_segment()

    @property
    def is_waiting(self) -> bool:
        """Whether actions wait, for a new stream if `open_segment` is None, else for `proceed`."""
        return bool(self._waiting) and not self.has_failed

    def open(self, stream: AudioStream) -> None:
        """Send audio to *stream*, opened with `options`, from now on."""
        offset = self.samples / self.options.rate
        self.segments.append(StreamSegment(stream=stream, options=self.options, offset=offset))

    def proceed(self) -> None:
        """Run waiting actions, up to one part of long audio; an action that raises waits again."""
        until = self.samples + round(_PART_SECONDS * self.options.rate)
        for _ in range(_TURN_ACTIONS):
            if not self.is_waiting or self.open_segment is None or self.samples >= until:
                return
            waiting = self._waiting
            self._waiting = deque()  # for what the action adds, which comes before the others
            try:
                waiting[0]()
                waiting.popleft()
            finally:
                self._waiting += waiting

    def take_waiting(self) -> None:
        """Run all waiting actions that need no new stream; raises like `proceed`."""
        while self.is_waiting and self.open_segment is not None:
            self.proceed()

    def drop_waiting(self) -> bool:
        """Drop all waiting actions; return whether the end of the audio was among them."""
        is_last = self.end in self._waiting
        self._waiting.clear()
        self._appended = self.samples
        return is_last

    def rewind(self) -> None:
        """Drop waiting actions and an incomplete sample: the client sends their audio again."""
        self.drop_waiting()
        self._reader.rest = b""

    def events(self, stream: AudioStream, events: Iterable[Event]) -> Iterator[Event | SegmentEnd]:
        """Add *events* of a stream; yield those that can be handled now, in order."""
        segment = next((each for each in self.segments if each.stream is stream), None)
        if segment is not None:  # the stream was not cleared
            segment.events += events
        while self.segments and self.segments[0].events:
            yield from self._events(self.segments[0])

    def close(self) -> None:
        """Drop everything, for example after a disconnect."""
        self._is_closed = True
        self._waiting.clear()
        for segment in self.segments:
            segment.stream.close()
        self.segments.clear()

    def _receive(self, audio: NDArray[np.float32] | memoryview) -> None:
        """
        Pass audio to the open stream; of longer audio the first part, and the rest waits.

        It is a memoryview if it has still to be read and each byte is a sample.
        """
        rate = self.options.rate
        part = round(_PART_SECONDS * rate) if len(audio) > _WHOLE_SECONDS * rate else len(audio)
        piece = audio[:part]
        self.segments[-1].stream.receive(
            self._reader.read(piece) if isinstance(piece, memoryview) else piece
        )
        self.samples += part
        if part < len(audio):
            self._waiting.append(partial(self._receive, audio[part:]))

    def _skip(self, samples: int) -> None:
        if (segment := self.open_segment) is not None:
            segment.stream.skip(samples / self.options.rate)
        self.samples += samples

    def _take_piece(self, pieces: Iterator[bytes]) -> None:
        piece = next(pieces, None)
        if piece is not None:
            audio = self._reader.read(piece)
            self._appended += len(audio)
            self._receive(audio)
            self._waiting.append(partial(self._take_piece, pieces))

    def _end_segment(self) -> None:
        self.take_waiting()
        if (segment := self.open_segment) is not None:
            segment.takes_audio = False
            segment.stream.end_audio()

    def _events(self, segment: StreamSegment) -> Iterator[Event | SegmentEnd]:
        """Yield the events of the first segment, on the session's clock."""
        has_ended = False
        while segment.events and not has_ended and not segment.is_over:
            event = segment.events.popleft().shifted(segment.offset)
            has_ended = isinstance(event, End)
            if isinstance(event, Failure) and event.is_final:
                self.has_failed = True
            if has_ended and not self.has_failed:
                for _ in range(segment.commits):  # those of audio without an utterance
                    yield Endpoint(event.audio_time, "commit", event.audio_time)
            match event:
                case Endpoint(reason="commit" | "end") if segment.commits:
                    segment.commits -= 1  # the end of the audio also answers a commit made after it
                    event = attrs.evolve(event, reason="commit")
            yield event
        if has_ended or segment.is_over:
            segment.stream.close()
            self.segments.remove(segment)
            yield SegmentEnd(segment.is_cleared)
