"""Drive one stream as a caller does and record everything that it emits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_conformance.testing.signals import partition
from wlk_core.processor import SAMPLE_RATE
from wlk_core.tokens import ChangeSpeaker, Emission

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.processor import OnlineProcessor
    from wlk_core.tokens import ASRToken

MAX_DRAIN_CALLS = 20_000  # far beyond any real backlog, so that an endless one is reported


@attrs.frozen
class Record:
    """An Emission, the call that returned it, and the end of the audio at that time."""

    call: str
    audio_time: float
    emission: Emission


@attrs.define
class StreamDriver:
    """Feed an online processor and record what it emits; `clock` counts the audio on its own."""

    processor: OnlineProcessor
    records: list[Record] = attrs.field(factory=list, init=False)
    _samples: int = attrs.field(default=0, init=False)
    _silences: list[float] = attrs.field(factory=list, init=False)

    @property
    def clock(self) -> float:
        """Seconds of audio and silence given so far."""
        return self._samples / SAMPLE_RATE + sum(self._silences)

    @property
    def tokens(self) -> tuple[ASRToken, ...]:
        """Everything committed so far."""
        return tuple(token for record in self.records for token in record.emission.committed)

    @property
    def text(self) -> str:
        """The transcript so far."""
        return "".join(token.text for token in self.tokens)

    @property
    def processed_up_to(self) -> float:
        """`processed_up_to` of the last emission, 0 before the first."""
        return self.records[-1].emission.processed_up_to if self.records else 0.0

    def insert(self, audio: NDArray[np.float32], end_time: float | None = None) -> None:
        """Insert *audio* without running the model."""
        self.processor.insert_audio_chunk(audio, end_time)
        self._samples += len(audio)

    def feed(self, audio: NDArray[np.float32], *, chunk_seconds: float = 1.0) -> None:
        """Insert *audio* in chunks with one process_iter after each."""
        for chunk in partition(audio, chunk_seconds):
            self.insert(chunk)
            self.process()

    def process(self, *, is_last: bool = False) -> Emission:
        """Call process_iter once."""
        return self._record("process_iter", self.processor.process_iter(is_last))

    def drain(self) -> None:
        """Call process_iter until no backlog is left."""
        calls = 0
        while self.processor.has_backlog:
            self.process()
            calls += 1
            if calls == MAX_DRAIN_CALLS:
                raise AssertionError(f"there is still a backlog after {MAX_DRAIN_CALLS} calls")

    def silence(self, seconds: float, offset: float | None = None) -> None:
        """Start and end a silence."""
        self.start_silence()
        self.end_silence(seconds, offset)

    def start_silence(self) -> Emission:
        """Call start_silence."""
        return self._record("start_silence", self.processor.start_silence())

    def end_silence(self, seconds: float, offset: float | None = None) -> None:
        """Call end_silence and move the clock."""
        self.processor.end_silence(seconds, offset)
        self._silences.append(seconds)

    def new_speaker(self, speaker: int | str, start: float | None = None) -> Emission:
        """Call new_speaker, by default at the end of the audio so far."""
        change = ChangeSpeaker(speaker, self.clock if start is None else start)
        emission = self.processor.new_speaker(change)  # type: ignore[attr-defined]  # some have it
        return self._record("new_speaker", emission)

    def finish(self) -> Emission:
        """Call finish."""
        return self._record("finish", self.processor.finish())

    def end(self) -> Emission:
        """Drain the backlog and finish."""
        self.drain()
        return self.finish()

    def reset(self) -> None:
        """Call reset, and forget everything recorded."""
        self.processor.reset()
        self.records.clear()
        self._samples = 0
        self._silences.clear()

    def _record(self, call: str, emission: Emission) -> Emission:
        self.records.append(Record(call, self.clock, emission))
        return emission
