"""Run decoded audio through a session, chunk by chunk."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from wlk_core.audio.chunks import rechunk
from wlk_core.audio.convert import validate_audio
from wlk_core.errors import AudioFormatError, OptionError
from wlk_core.processor import MAX_STREAM_SECONDS, SAMPLE_RATE
from wlk_core.session.events import End, Failure
from wlk_core.session.session import Session
from wlk_core.untrusted import real_number, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.annotators import Diarizer
    from wlk_core.processor import OnlineProcessor
    from wlk_core.session.events import Event
    from wlk_core.vad.gate import SilenceGate

__all__ = ["chunk_samples", "steps", "transcribe_stream"]

logger = logging.getLogger(__name__)


def transcribe_stream(
    processor: OnlineProcessor,
    pieces: Iterable[NDArray[np.float32]],
    *,
    chunk_seconds: float = 1.0,
    gate: SilenceGate | None = None,
    realtime: bool = False,
    diarizer: Diarizer | None = None,
) -> Iterator[Event]:
    """
    Run *pieces*, float32 arrays of any lengths at 16 kHz, through *processor*.

    The audio is given in chunks of `chunk_seconds`.  With a gate, pauses are left out and reported
    to the processor as silences.  With `realtime` a chunk is given when it would have been spoken.
    The caller closes the diarizer.  Times come from whole sample counts.

    Errors, those of *pieces* included, are raised when everything committed before them has been
    yielded.  After an error of *pieces* the audio before it is finished first, so that a damaged
    file gives all the text of its sound part.

    Yields:
        The events of a Session as they happen, and one End.

    Raises:
        AudioFormatError: a piece is not one channel of finite float32, or *pieces* raised it.
        OSError: *pieces* raised it.
        BackendError: the engine failed.
        OptionError: `chunk_seconds` is not above 0.

    """
    session = Session(processor, gate=gate, diarizer=diarizer)
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
        session.receive(chunk)
        yield from steps(session)
    session.end_audio()
    for event in steps(session):
        if failure is not None and isinstance(event, End):
            raise failure
        yield event


def chunk_samples(chunk_seconds: float) -> int:
    """
    Return the number of samples in a chunk, at least one.

    Raises:
        OptionError: `chunk_seconds` is no number of seconds above 0 and up to MAX_STREAM_SECONDS.

    """
    seconds = real_number(chunk_seconds)
    if seconds is None or not 0 < seconds <= MAX_STREAM_SECONDS:
        raise OptionError(
            f"expected `chunk_seconds` above 0 and up to {MAX_STREAM_SECONDS:.0f}, "
            f"got {shown(chunk_seconds)}"
        )
    return max(1, round(seconds * SAMPLE_RATE))


def steps(session: Session) -> Iterator[Event]:
    """
    Do all the work that *session* has; yield each event as soon as its step is over.

    Failures that pass are logged, because the words come all the same.

    Raises:
        BackendError: the session ended with a final failure; every event before it was yielded.

    """
    while session.has_work:
        for event in session.step():
            if isinstance(event, Failure):
                if event.is_final:
                    raise event.error
                logger.warning("%s", event.error)
            yield event


def _validated(piece: NDArray[np.float32]) -> NDArray[np.float32]:
    validate_audio(piece)
    return piece
