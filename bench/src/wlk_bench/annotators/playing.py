"""Play a recording to an annotator through a session whose words are known."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs

from wlk_bench.recorder import Clock
from wlk_core.audio import rechunk
from wlk_core.processor import SAMPLE_RATE, StreamStats
from wlk_core.session import Failure, Session
from wlk_core.tokens import ASRToken, Emission, Transcript
from wlk_core.vad import silence_gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from wlk_bench.data import Sample
    from wlk_core.annotators import AnnotatorKind
    from wlk_core.session import Event


@attrs.frozen
class Heard:
    """An event of a session, and the time on the clock of the stream at which it came."""

    event: Event
    wall: float


Played: TypeAlias = "Sequence[tuple[Sample, list[Heard]]]"


class KnownWords:
    """What a session calls of a stream, without a model: a word is final when it was spoken."""

    stats = StreamStats()

    def __init__(self, words: Iterable[ASRToken]) -> None:
        self._words = deque(words)
        self._time = 0.0

    def insert_audio_chunk(self, audio: NDArray[np.float32], _end_time: float) -> None:
        """Move the clock over float32[n]."""
        self._time += len(audio) / SAMPLE_RATE

    def end_silence(self, seconds: float) -> None:
        """Move the clock over a pause."""
        self._time += seconds

    @property
    def has_backlog(self) -> bool:
        """Whether a word was spoken and is not committed."""
        return bool(self._words) and self._words[0].end <= self._time

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- as OnlineProcessor
        """Commit what was spoken; no word is held back for `is_last`."""
        del is_last
        committed = []
        while self.has_backlog:
            committed.append(self._words.popleft())
        return Emission(tuple(committed), self._time, self._time)

    start_silence = finish = process_iter

    def get_buffer(self) -> Transcript:
        """Return no hypothesis."""
        return Transcript()


def audio_of(sample: Sample) -> Iterator[NDArray[np.float32]]:
    """Return the audio of a line of a manifest, in which no pauses are reported."""
    return cast("Iterator[NDArray[np.float32]]", sample.audio())


def play(
    sample: Sample,
    kind: AnnotatorKind,
    annotator: Any,
    chunk_seconds: float,
    *,
    clock: Clock | None = None,
) -> list[Heard]:
    """
    Give *sample* in chunks to a session with a gate and *annotator*; return what happened.

    Only a translator is played to in real time: it works in a thread of its own.  Raises the error
    of an annotator that fails.
    """
    clock = clock or Clock(is_paced=kind == "translator")
    annotator.reset()
    tokens = (ASRToken(each.start, each.end, f" {each.text}") for each in sample.reference.words)
    words: Any = KnownWords(tokens)
    session = Session(words, gate=silence_gate(), **{kind.replace("-", "_"): annotator})
    heard: list[Heard] = []

    def take(call: Callable[[], list[Event]]) -> None:
        for event in call():
            if isinstance(event, Failure):
                raise event.error
            heard.append(Heard(event, clock.now))

    samples = 0
    for chunk in rechunk(audio_of(sample), round(chunk_seconds * SAMPLE_RATE)):
        samples += len(chunk)
        clock.wait_for(samples / SAMPLE_RATE)
        take(partial(session.feed, chunk))
    take(session.finish)
    return heard
