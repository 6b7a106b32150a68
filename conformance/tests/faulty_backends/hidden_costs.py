"""Faulty backends that leak or grow, and whose counters do not show it."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import attrs

from faulty_backends.base import CountedStream, FaultyBackend, violates
from wlk_core import SAMPLE_RATE, Emission

__all__: list[str] = []


@violates("RES-01")
class HidesItsGrowth(CountedStream):
    """Keeps a kilobyte for each second of the stream, and does not count it."""

    def __init__(self, stream: Any, backend: FaultyBackend, language: str | None = None) -> None:
        super().__init__(stream, backend, language)
        self.kept: list[bytes] = []

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Keep it."""
        self.stream.insert_audio_chunk(audio, end_time)
        self.kept.append(bytes(len(audio) // 16))


@violates("RES-01")
class NeverTrimsItsAudio(HidesItsGrowth):
    """Keeps all audio, and counts what its window needs."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Keep it."""
        self.stream.insert_audio_chunk(audio, end_time)
        self.kept.append(audio.tobytes())


@violates("RES-02")
class HidesEngineCalls(CountedStream):
    """Runs its engine once more for each minute of the stream, and does not count it."""

    def process_iter(self, is_last: bool = False) -> Emission:  # noqa: FBT001, FBT002 -- pinned
        """Run it."""
        for _ in range(int(self.stream.stats.audio_seconds / 60)):
            self.backend.engine_calls.wrap(int)()
        return super().process_iter(is_last)


@violates("RES-02", detector="sessions")
class CounterGoesBack(CountedStream):
    """Begins its counters anew at the second flush."""

    @property
    def stats(self) -> Any:
        """The counters, from the second flush on."""
        stats = self.stream.stats
        return stats if self.flushes < 2 else attrs.evolve(stats, decoder_forwards=0)


@violates("IN-04", detector="sessions")
class InsertRunsTheModel(CountedStream):
    """Runs its engine in an insert of more than two seconds."""

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Run it."""
        self.stream.insert_audio_chunk(audio, end_time)
        if len(audio) > 2 * SAMPLE_RATE:
            self.backend.engine_calls.wrap(int)()


@violates("LIFE-10", detector="sessions")
class LeavesThreadAtReset(CountedStream):
    """Leaves a thread running at each reset."""

    def reset(self) -> None:
        """Start it."""
        self.stream.reset()
        threading.Thread(target=threading.Event().wait, args=(30.0,), daemon=True).start()


@violates("LIFE-10", detector="sessions")
class LeavesFileOpen(CountedStream):
    """Leaves a file open at the third flush."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Open it."""
        if self.flushes == 3 and call != "process_iter":
            os.open(os.devnull, os.O_RDONLY)
        return emission


@violates("PKG-06", detector="sessions")
class PrintsAtFourthFlush(CountedStream):
    """Prints a line at the fourth flush."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Print it."""
        if self.flushes == 4 and call != "process_iter":
            sys.stdout.write("the cache is full\n")
        return emission


@violates("LIFE-03", detector="sessions")
class SecondFinishRunsTheModel(CountedStream):
    """Runs its engine at a second finish after more than two flushes."""

    def finish(self) -> Emission:
        """Run it."""
        if self.stream._is_finished and self.flushes > 2:
            self.backend.engine_calls.wrap(int)()
        return super().finish()
