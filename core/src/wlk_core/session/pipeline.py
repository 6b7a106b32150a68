"""Feed a stream from decoded audio, chunk by chunk, and tell what comes out as events."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import attrs

from wlk_core.audio.chunks import rechunk
from wlk_core.errors import AudioFormatError, BackendError, StreamBroken
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session.events import Commit, End, HypothesisChange, SilenceSpan
from wlk_core.session.latency import Latencies
from wlk_core.tokens import Silence
from wlk_core.vad.gate import SilenceEnded, SilenceStarted, SpeechAudio

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.processor import OnlineProcessor
    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken, Emission
    from wlk_core.vad.gate import SilenceGate

__all__ = ["transcribe_stream"]

logger = logging.getLogger(__name__)

MAX_ATTEMPTS = 4  # one call and the three retries after which a stream is broken (ERR-03)


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

    The audio is given in chunks of `chunk_seconds`; with a gate, pauses are left out and told to
    the processor as silences; with `realtime` a chunk is given when it would have been spoken.
    Times come from whole sample counts.  Errors, those of *pieces* included, are raised when
    everything committed before them has been yielded; what the processor still holds is then
    finished first, so that a damaged file gives all the text of its sound part.

    Yields:
        Commit, HypothesisChange and SilenceSpan as they happen, and one End.

    """
    session = _Session(processor)
    began = time.perf_counter()
    failure: AudioFormatError | OSError | None = None
    chunks = rechunk(pieces, max(1, round(chunk_seconds * SAMPLE_RATE)))
    while True:
        try:
            chunk = next(chunks, None)
        except (AudioFormatError, OSError) as error:  # raised again below, after finish
            failure = error
            break
        if chunk is None:
            break
        session.received += len(chunk)
        if realtime:
            time.sleep(max(0.0, began + session.audio_time - time.perf_counter()))
        yield from session.take(chunk, gate)
    yield from session.finish(gate)
    if failure is not None:
        raise failure
    yield End(
        audio_time=session.audio_time,
        stats=processor.stats,
        latency=session.latencies.summary(),
        wall_seconds=time.perf_counter() - began,
    )


@attrs.define
class _Session:
    """The running state of transcribe_stream."""

    processor: OnlineProcessor
    received: int = 0  # samples of audio, pauses included
    given: int = 0  # samples that the processor knows of, as audio or as silence
    latencies: Latencies = attrs.field(factory=Latencies)
    _shown: str = ""

    @property
    def audio_time(self) -> float:
        """Stream time of the audio received."""
        return self.received / SAMPLE_RATE

    def take(self, chunk: NDArray[np.float32], gate: SilenceGate | None) -> Iterator[Event]:
        """Give one chunk to the processor, by way of the gate if there is one."""
        if gate is None:
            self._insert(chunk)
        else:
            for happening in gate.push(chunk):
                yield from self._follow(happening)
        yield from self._drain()

    def finish(self, gate: SilenceGate | None) -> Iterator[Event]:
        """Give what the gate still holds and commit everything."""
        for happening in gate.flush() if gate is not None else ():
            yield from self._follow(happening)
        yield from self._call(self.processor.finish)
        yield from self._show()

    def _follow(self, happening: SpeechAudio | SilenceStarted | SilenceEnded) -> Iterator[Event]:
        if isinstance(happening, SpeechAudio):
            self._insert(happening.samples)
        elif isinstance(happening, SilenceStarted):
            yield from self._call(self.processor.start_silence)
            yield from self._show()
        elif happening.end_sample > happening.start_sample:
            length = happening.end_sample - happening.start_sample
            self.processor.end_silence(length / SAMPLE_RATE)
            self.given += length
            silence = Silence(
                happening.start_sample / SAMPLE_RATE, happening.end_sample / SAMPLE_RATE
            )
            yield SilenceSpan(silence, self.audio_time)

    def _insert(self, audio: NDArray[np.float32]) -> None:
        self.given += len(audio)
        self.processor.insert_audio_chunk(audio, self.given / SAMPLE_RATE)

    def _drain(self) -> Iterator[Event]:
        """Call process_iter until the backlog no longer shrinks."""
        reached = -1.0
        while True:
            emission = yield from self._call(self.processor.process_iter)
            if emission.processed_up_to <= reached:
                break
            reached = emission.processed_up_to
        yield from self._show()

    def _show(self) -> Iterator[Event]:
        transcript = self.processor.get_buffer()
        if transcript.text != self._shown:
            self._shown = transcript.text
            yield HypothesisChange(transcript, self.audio_time)

    def _call(self, call: Callable[[], Emission]) -> Generator[Event, None, Emission]:
        """Make an exclusive call, again where that makes sense, and tell what it committed."""
        for attempt in range(MAX_ATTEMPTS):
            try:
                emission = call()
            except StreamBroken as error:
                if error.committed:
                    yield self._commit(error.committed)
                raise
            except BackendError as error:
                if not error.retryable or attempt + 1 == MAX_ATTEMPTS:
                    raise
                logger.warning("%s", error)
                continue
            if emission.committed:
                yield self._commit(emission.committed)
            return emission
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _commit(self, tokens: tuple[ASRToken, ...]) -> Commit:
        self.latencies.add(tokens, self.audio_time)
        return Commit(tokens, self.audio_time)
