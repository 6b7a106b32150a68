"""A session: audio in, events out, without threads, clocks or sockets of its own."""

from __future__ import annotations

from collections import deque
import threading
from typing import TYPE_CHECKING, TypeAlias

import attrs

from wlk_core.audio.pcm import PcmConverter
from wlk_core.errors import BackendError, SessionOverloaded, StreamBroken, StreamClosed
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session.calls import MAX_ATTEMPTS
from wlk_core.session.events import (
    Commit,
    End,
    Endpoint,
    Failure,
    HypothesisChange,
    Lag,
    SilenceSpan,
    SpeechStarted,
)
from wlk_core.session.latency import Latencies
from wlk_core.tokens import Silence
from wlk_core.vad.gate import SilenceStarted, SpeechAudio

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.audio.pcm import Audio, Encoding
    from wlk_core.processor import OnlineProcessor
    from wlk_core.session.events import EndpointReason, Event
    from wlk_core.tokens import ASRToken, Emission
    from wlk_core.vad.gate import GateEvent, SilenceGate

__all__ = ["Session"]

_PIECE_SAMPLES = 60 * SAMPLE_RATE  # the longest piece of audio that `feed` gives at once


class _StepEnd:
    """Marks the end of a step: the processor was called, or no work is left."""


class _Command:
    """Something other than audio that waits in line."""


_STEP_END = _StepEnd()
_COMMIT = _Command()
_END = _Command()
_Worker: TypeAlias = "Generator[Event | _StepEnd]"


class Session:
    """
    One stream of audio that becomes one ordered list of events.

    A session does no input or output, in the way h11 does none for HTTP: audio is given to it and
    events come back.  A file, a microphone and a server are loops around it::

        session = Session(backend.create_processor(language="en"), gate=silence_gate())
        for chunk in chunks:
            handle(session.feed(chunk))
        handle(session.finish())

    Audio is bytes of `encoding`, or arrays; see `PcmConverter`.  Each event comes once, in order,
    with times in seconds on the stream clock; none comes after `End`.

    A program that runs many sessions uses the two halves of `feed`: `receive`, `commit` and
    `end_audio` may be called from any thread at any time and never wait for the model; `step` makes
    at most one call of the processor and returns its events.  One thread at a time may step it.

    A call that fails is a `Failure` and is made again by the next step.  After the last attempt
    the failure is final and the session ends; everything committed has been returned before.

    Args:
        processor: a new stream of a backend.  The session finishes it; the caller closes it.
        gate: leaves pauses out and finds the endpoints; None gives all audio to the model.
        encoding: the form of audio that is given as bytes.
        rate: samples a second of the source, 8,000 to 192,000.
        channels: channels of the source; they are averaged.
        lag_seconds: how much audio may wait to be decoded before a `Lag` is reported.
        max_backlog_seconds: how much audio may wait before `receive` refuses more.

    """

    def __init__(
        self,
        processor: OnlineProcessor,
        *,
        gate: SilenceGate | None = None,
        encoding: Encoding = "s16le",
        rate: int = SAMPLE_RATE,
        channels: int = 1,
        lag_seconds: float = 2.0,
        max_backlog_seconds: float = 120.0,
    ) -> None:
        self._processor = processor
        self._gate = gate
        self._lag_seconds = lag_seconds
        self._max_backlog = round(max_backlog_seconds * SAMPLE_RATE)
        self._converter = PcmConverter(encoding=encoding, rate=rate, channels=channels)
        self._lock = threading.Lock()  # of the queue and the converter, held for microseconds
        self._queue: deque[NDArray[np.float32] | _Command] = deque()
        self._received = 0  # samples at 16 kHz, pauses included
        self._waiting = 0  # of them, samples in the queue
        self._has_audio_ended = False
        self._position = 0  # samples given to the processor, as audio or as silence
        self._latencies = Latencies()
        self._shown_text = ""
        self._is_lagging = False
        self._is_speaking = False  # whether audio was given since the last endpoint
        self._is_over = False
        self._worker: _Worker = self._work()
        self._is_between_calls = False  # whether the worker stopped inside the work on one item

    @property
    def audio_time(self) -> float:
        """Stream time of the end of the audio received, in seconds."""
        return self._received / SAMPLE_RATE

    @property
    def backlog_seconds(self) -> float:
        """Seconds of audio that were received and that no step has taken yet."""
        return self._waiting / SAMPLE_RATE

    @property
    def is_over(self) -> bool:
        """Whether the End was returned or the session failed; no event will come any more."""
        return self._is_over

    @property
    def has_work(self) -> bool:
        """Whether a step would do something now."""
        return not self._is_over and (self._is_between_calls or bool(self._queue))

    def receive(self, audio: Audio) -> None:
        """
        Append a copy of *audio*, of any length; never waits for the model.

        Raises:
            AudioFormatError: another type or shape, NaN or infinity; nothing was changed.
            SessionOverloaded: more than `max_backlog_seconds` would wait; nothing was changed.
            StreamClosed: `end_audio` was called, or the session is over.

        """
        with self._lock:
            self._check_receives()
            if self._waiting > self._max_backlog:
                raise SessionOverloaded(
                    f"{self.backlog_seconds:.0f} s of audio wait to be decoded, the bound is "
                    f"{self._max_backlog / SAMPLE_RATE:.0f} s; step the session, then send again"
                )
            self._put(self._converter.push(audio))

    def commit(self) -> None:
        """
        Declare that the utterance ends with the audio received so far.

        The steps commit all of its words and report one `Endpoint`, with or without a gate.

        Raises:
            StreamClosed: `end_audio` was called, or the session is over.

        """
        with self._lock:
            self._check_receives()
            self._queue.append(_COMMIT)

    def end_audio(self) -> None:
        """Declare that no more audio will come; may be called again."""
        with self._lock:
            if self._has_audio_ended:
                return
            self._has_audio_ended = True
            self._put(self._converter.flush())
            self._queue.append(_END)

    def step(self) -> list[Event]:
        """
        Make the next call of the processor, if there is one to make; return what happened.

        Raises:
            StreamClosed: the processor was closed by its owner; the session is over.

        """
        events: list[Event] = []
        if self._is_over:
            return events
        self._is_between_calls = True
        try:
            for event in self._worker:
                if isinstance(event, _StepEnd):
                    return events
                events.append(event)
        except BaseException:
            self._is_over = True
            raise
        self._is_over = True
        return events

    def feed(self, audio: Audio) -> list[Event]:
        """
        Give *audio* of any length and do all the work that it brings; return what happened.

        Raises:
            AudioFormatError, StreamClosed: see `receive`.

        """
        with self._lock:
            self._check_receives()
            samples = self._converter.push(audio)
        events: list[Event] = []
        for start in range(0, len(samples), _PIECE_SAMPLES):
            with self._lock:
                self._put(samples[start : start + _PIECE_SAMPLES])
            events += self._steps()
        return events

    def finish(self) -> list[Event]:
        """End the audio, commit everything and return the last events; the last one is the End."""
        self.end_audio()
        return self._steps()

    def _steps(self) -> list[Event]:
        events: list[Event] = []
        while self.has_work:
            events += self.step()
        return events

    def _check_receives(self) -> None:
        if self._is_over or self._has_audio_ended:
            raise StreamClosed("the session has ended; open a new one for more audio")

    def _put(self, samples: NDArray[np.float32]) -> None:
        if len(samples):
            self._received += len(samples)
            self._waiting += len(samples)
            self._queue.append(samples)

    def _take(self) -> NDArray[np.float32] | _Command | None:
        with self._lock:
            if not self._queue:
                return None
            item = self._queue.popleft()
            if not isinstance(item, _Command):
                self._waiting -= len(item)
            return item

    def _work(self) -> _Worker:
        """Work through the queue; a step ends at a call of the processor or at an empty queue."""
        try:
            while True:
                item = self._take()
                if item is None:
                    self._is_between_calls = False
                    yield _STEP_END
                elif item is _END:
                    yield from self._end()
                    return
                elif isinstance(item, _Command):
                    yield from self._commit_utterance()
                else:
                    yield from self._report_lag()
                    yield from self._decode(item)
        except _FinalFailureError as failure:
            yield Failure(failure.error, is_final=True, audio_time=self.audio_time)
            yield self._summary()

    def _decode(self, audio: NDArray[np.float32]) -> _Worker:
        if self._gate is None:
            self._insert(audio)
        else:
            for gate_event in self._gate.push(audio):
                yield from self._apply(gate_event)
        yield from self._drain()
        yield from self._hypothesis_change()

    def _drain(self) -> _Worker:
        """Decode what waits, in calls of a few steps each, so that a flush after it is short."""
        while self._processor.has_backlog:
            yield from self._call(self._processor.process_iter)

    def _commit_utterance(self) -> _Worker:
        for gate_event in self._gate.cut() if self._gate is not None else ():
            yield from self._apply(gate_event)
        yield from self._drain()
        yield from self._call(lambda: self._processor.process_iter(is_last=True))
        yield from self._hypothesis_change()
        yield self._endpoint(self._position, "commit")

    def _end(self) -> _Worker:
        for gate_event in self._gate.flush() if self._gate is not None else ():
            yield from self._apply(gate_event)
        yield from self._drain()
        yield from self._call(self._processor.finish)
        yield from self._hypothesis_change()
        if self._is_speaking:
            yield self._endpoint(self._position, "end")
        yield self._summary()

    def _apply(self, gate_event: GateEvent) -> _Worker:
        if isinstance(gate_event, SpeechAudio):
            if not self._is_speaking:
                yield SpeechStarted(gate_event.start_sample / SAMPLE_RATE, self.audio_time)
            self._insert(gate_event.samples)
        elif isinstance(gate_event, SilenceStarted):
            yield from self._drain()
            yield from self._call(self._processor.start_silence)
            yield from self._hypothesis_change()
            if self._is_speaking:
                yield self._endpoint(gate_event.at_sample, "silence")
        elif gate_event.end_sample > gate_event.start_sample:
            start, end = gate_event.start_sample, gate_event.end_sample
            self._processor.end_silence((end - start) / SAMPLE_RATE)
            self._position += end - start
            silence = Silence(start / SAMPLE_RATE, end / SAMPLE_RATE)
            yield SilenceSpan(silence, self.audio_time)

    def _insert(self, audio: NDArray[np.float32]) -> None:
        self._is_speaking = True
        self._position += len(audio)
        self._processor.insert_audio_chunk(audio, self._position / SAMPLE_RATE)

    def _call(self, call: Callable[[], Emission]) -> _Worker:
        """Make a call of the processor until it succeeds, one attempt a step."""
        for retries_left in reversed(range(MAX_ATTEMPTS)):
            try:
                emission = call()
            except BackendError as error:
                if isinstance(error, StreamBroken) and error.committed:
                    yield self._committed(error.committed)
                if not error.retryable or not retries_left:
                    raise _FinalFailureError(error) from error
                yield Failure(error, is_final=False, audio_time=self.audio_time)
                yield _STEP_END
            else:
                if emission.committed:
                    yield self._committed(emission.committed)
                yield _STEP_END
                return

    def _committed(self, tokens: tuple[ASRToken, ...]) -> Commit:
        self._latencies.add(tokens, self.audio_time)
        return Commit(tokens, self.audio_time)

    def _hypothesis_change(self) -> _Worker:
        transcript = self._processor.get_buffer()
        if transcript.text != self._shown_text:
            self._shown_text = transcript.text
            yield HypothesisChange(transcript, self.audio_time)

    def _endpoint(self, sample: int, reason: EndpointReason) -> Endpoint:
        self._is_speaking = False
        return Endpoint(sample / SAMPLE_RATE, reason, self.audio_time)

    def _report_lag(self) -> _Worker:
        """Report once that audio waits too long, and once that none does any more."""
        bound = 0.0 if self._is_lagging else self._lag_seconds
        is_lagging = self.backlog_seconds > bound
        if is_lagging != self._is_lagging:
            self._is_lagging = is_lagging
            yield Lag(self.backlog_seconds, self.audio_time)

    def _summary(self) -> End:
        return End(
            audio_time=self.audio_time,
            stats=self._processor.stats,
            latency=self._latencies.summary(),
        )


@attrs.frozen
class _FinalFailureError(Exception):
    """A call of the processor failed for the last time."""

    error: BackendError
