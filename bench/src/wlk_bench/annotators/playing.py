"""Play a recording to an annotator through a session whose words are known."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs

from wlk_bench.recorder import Clock
from wlk_core.processor import SAMPLE_RATE, StreamStats
from wlk_core.tokens import ASRToken, Emission, Transcript
from wlk_live.audio import rechunk
from wlk_live.session import Failure, Session
from wlk_live.vad import silence_gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_bench.data import Sample
    from wlk_core.annotators import AnnotatorKind
    from wlk_live.session import Event


@attrs.frozen
class TimedEvent:
    """An event of a session, and the time on the stream's clock at which it was reported."""

    event: Event
    wall: float


Played: TypeAlias = "Sequence[tuple[Sample, list[TimedEvent]]]"


class KnownWords:
    """A stand-in for a stream, without a model: it commits each known word once it is spoken."""

    stats = StreamStats()

    def __init__(self, words: Iterable[ASRToken]) -> None:
        self._words = deque(words)
        self._time = 0.0

    def insert_audio_chunk(self, audio: NDArray[np.float32], _end_time: float) -> None:
        """Advance the clock by the length of float32[n]."""
        self._time += len(audio) / SAMPLE_RATE

    def end_silence(self, seconds: float) -> None:
        """Advance the clock by a pause."""
        self._time += seconds

    @property
    def has_backlog(self) -> bool:
        """Whether a word has been spoken but not committed."""
        return bool(self._words) and self._words[0].end <= self._time

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """Commit the words spoken so far; `is_last` changes nothing, as no word is held back."""
        del is_last
        committed = []
        while self.has_backlog:
            committed.append(self._words.popleft())
        return Emission(tuple(committed), self._time, self._time)

    start_silence = finish = process_iter

    def get_buffer(self) -> Transcript:
        """Return an empty hypothesis."""
        return Transcript()


def audio_of(sample: Sample) -> Iterator[NDArray[np.float32]]:
    """Return the audio of a sample from a manifest, which contains no `Pause`."""
    return cast("Iterator[NDArray[np.float32]]", sample.audio())


def play(
    sample: Sample,
    kind: AnnotatorKind,
    annotator: Any,
    chunk_seconds: float,
    *,
    clock: Clock | None = None,
) -> list[TimedEvent]:
    """
    Feed *sample* in chunks to a session with a gate and *annotator*; return the session's events.

    Only a translator is fed in real time, because it works in a thread of its own.  If the
    annotator fails, its error is raised.
    """
    clock = clock or Clock(is_paced=kind == "translator")
    annotator.reset()
    tokens = (ASRToken(each.start, each.end, f" {each.text}") for each in sample.reference.words)
    words: Any = KnownWords(tokens)
    parameter = kind.replace("-", "_")  # as Session names it
    session = Session(words, gate=silence_gate(), **{parameter: annotator})
    events: list[TimedEvent] = []

    def record(call: Callable[[], list[Event]]) -> None:
        for event in call():
            if isinstance(event, Failure):
                raise event.error
            events.append(TimedEvent(event, clock.now))

    samples = 0
    for chunk in rechunk(audio_of(sample), round(chunk_seconds * SAMPLE_RATE)):
        samples += len(chunk)
        clock.wait_for(samples / SAMPLE_RATE)
        record(partial(session.feed, chunk))
    record(session.finish)
    return events
