"""Feed a stream from decoded audio, chunk by chunk, and report the results as events."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import attrs

from wlk_core.audio.chunks import rechunk
from wlk_core.audio.convert import validate_audio
from wlk_core.errors import AudioFormatError, OptionError, StreamBroken
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session.calls import attempt, drain
from wlk_core.session.events import Commit, End, HypothesisChange, SilenceSpan
from wlk_core.session.latency import Latencies
from wlk_core.tokens import Silence
from wlk_core.vad.gate import SilenceStarted, SpeechAudio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.processor import OnlineProcessor
    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken, Emission
    from wlk_core.vad.gate import GateEvent, SilenceGate

__all__ = ["StreamSession", "chunk_samples", "transcribe_stream"]


def transcribe_stream(
    processor: OnlineProcessor,
    pieces: Iterable[NDArray[np.float32]],
    *,
    chunk_seconds: float = 1.0,
    gate: SilenceGate | None = None,
    realtime: bool = False,
) -> Iterator[Event]:
    """
    Run *pieces*, float32 arrays of any lengths at 16 kHz, through *processor*.

    The audio is given in chunks of `chunk_seconds`.  With a gate, pauses are left out and reported
    to the processor as silences.  With `realtime` a chunk is given when it would have been spoken.
    Times come from whole sample counts.

    Errors, those of *pieces* included, are raised when everything committed before them has been
    yielded.  After an error of *pieces* the audio before it is finished first, so that a damaged
    file gives all the text of its sound part.

    Yields:
        Commit, HypothesisChange and SilenceSpan as they happen, and one End.

    Raises:
        AudioFormatError: a piece is not one channel of finite float32, or *pieces* raised it.
        OSError: *pieces* raised it.
        BackendError: the engine failed.
        OptionError: `chunk_seconds` is not above 0.

    """
    session = StreamSession(processor, gate)
    began = time.perf_counter()
    failure: AudioFormatError | OSError | None = None
    chunks = rechunk(map(_validated, pieces), chunk_samples(chunk_seconds))
    while True:
        try:
            chunk = next(chunks, None)
        except (AudioFormatError, OSError) as error:  # raised again below, after finish
            failure = error
            break
        if chunk is None:
            break
        if realtime:
            due = began + session.audio_time + len(chunk) / SAMPLE_RATE
            time.sleep(max(0.0, due - time.perf_counter()))
        yield from session.feed(chunk)
    yield from session.finish()
    if failure is not None:
        raise failure
    yield session.end()


def chunk_samples(chunk_seconds: float) -> int:
    """
    Return the number of samples in a chunk, at least one.

    Raises:
        OptionError: `chunk_seconds` is not a number of seconds above 0.

    """
    if not 0 < chunk_seconds < float("inf"):
        raise OptionError(f"expected `chunk_seconds` above 0, got {chunk_seconds}")
    return max(1, round(chunk_seconds * SAMPLE_RATE))


@attrs.define
class StreamSession:
    """
    A stream, the gate before it and the figures of a session; it does no input or output.

    The iterators that `feed` and `finish` return do the work: each must be consumed to its end
    before the next call.
    """

    _processor: OnlineProcessor
    _gate: SilenceGate | None = None
    _received: int = 0  # samples of audio, pauses included
    _position: int = 0  # samples given to the processor, as audio or as silence
    _latencies: Latencies = attrs.field(factory=Latencies)
    _shown_text: str = ""
    _began: float = attrs.field(factory=time.perf_counter)

    @property
    def audio_time(self) -> float:
        """Stream time of the audio received."""
        return self._received / SAMPLE_RATE

    def feed(self, chunk: NDArray[np.float32]) -> Iterator[Event]:
        """Give one chunk to the processor, through the gate if there is one, and drain it."""
        self._received += len(chunk)
        if self._gate is None:
            self._insert(chunk)
        else:
            for gate_event in self._gate.push(chunk):
                yield from self._apply(gate_event)
        yield from self._commits(drain(self._processor))
        yield from self._hypothesis_change()

    def finish(self) -> Iterator[Event]:
        """Give the processor the audio that the gate still holds and commit everything."""
        for gate_event in self._gate.flush() if self._gate is not None else ():
            yield from self._apply(gate_event)
        yield from self._commits(_emission_of(self._processor.finish))
        yield from self._hypothesis_change()

    def end(self) -> End:
        """Return the last event, with the figures of the session; call it after `finish`."""
        return End(
            audio_time=self.audio_time,
            stats=self._processor.stats,
            latency=self._latencies.summary(),
            wall_seconds=time.perf_counter() - self._began,
        )

    def _apply(self, gate_event: GateEvent) -> Iterator[Event]:
        if isinstance(gate_event, SpeechAudio):
            self._insert(gate_event.samples)
        elif isinstance(gate_event, SilenceStarted):
            yield from self._commits(_emission_of(self._processor.start_silence))
            yield from self._hypothesis_change()
        elif gate_event.end_sample > gate_event.start_sample:
            samples = gate_event.end_sample - gate_event.start_sample
            self._processor.end_silence(samples / SAMPLE_RATE)
            self._position += samples
            silence = Silence(
                gate_event.start_sample / SAMPLE_RATE, gate_event.end_sample / SAMPLE_RATE
            )
            yield SilenceSpan(silence, self.audio_time)

    def _insert(self, audio: NDArray[np.float32]) -> None:
        self._position += len(audio)
        self._processor.insert_audio_chunk(audio, self._position / SAMPLE_RATE)

    def _commits(self, emissions: Iterable[Emission]) -> Iterator[Event]:
        """Yield the committed tokens of *emissions*, also those that a broken stream still held."""
        try:
            for emission in emissions:
                if emission.committed:
                    yield self._commit(emission.committed)
        except StreamBroken as error:
            if error.committed:
                yield self._commit(error.committed)
            raise

    def _commit(self, tokens: tuple[ASRToken, ...]) -> Commit:
        self._latencies.add(tokens, self.audio_time)
        return Commit(tokens, self.audio_time)

    def _hypothesis_change(self) -> Iterator[Event]:
        transcript = self._processor.get_buffer()
        if transcript.text != self._shown_text:
            self._shown_text = transcript.text
            yield HypothesisChange(transcript, self.audio_time)


def _emission_of(call: Callable[[], Emission]) -> Iterator[Emission]:
    yield attempt(call)


def _validated(piece: NDArray[np.float32]) -> NDArray[np.float32]:
    validate_audio(piece)
    return piece
