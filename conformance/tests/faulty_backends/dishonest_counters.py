"""Faults that the counters of a stream hide, or that only its counters have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from faulty_backends.base import CountedStream, violates

if TYPE_CHECKING:
    from wlk_core import Emission

__all__: list[str] = []


class _Miscounting(CountedStream):
    """A stream that adds `extra` to a counter."""

    extra = 0

    @property
    def stats(self) -> Any:
        """The counters, with more forward passes."""
        stats = self.stream.stats
        forwards = (stats.decoder_forwards or 0) + self.extra
        return attrs.evolve(stats, decoder_forwards=forwards)


@violates("LIFE-03")
class CountsWorkAtSecondFinish(_Miscounting):
    """Counts a forward pass at a second finish."""

    finishes = 0

    def changed(self, emission: Emission, call: str) -> Emission:
        """Count it."""
        self.finishes += call == "finish"
        self.extra = max(0, self.finishes - 1)
        return emission


@violates("LIFE-05")
class CountsPaddingAtFinish(_Miscounting):
    """Counts a forward pass at a finish without audio."""

    def changed(self, emission: Emission, call: str) -> Emission:
        """Count it."""
        self.extra = int(call == "finish" and not self.stream.stats.audio_seconds)
        return emission


@violates("LIFE-06")
class KeepsCountersOverReset(_Miscounting):
    """Adds the forward passes before a reset to those after it."""

    def reset(self) -> None:
        """Keep them."""
        self.extra += self.stream.stats.decoder_forwards or 0
        super().reset()


@violates("LIFE-10")
class HoldsStateAfterClose(CountedStream):
    """Holds a megabyte after it was closed."""

    is_closed = False

    def close(self) -> None:
        """Keep it."""
        self.stream.close()
        self.is_closed = True

    @property
    def stats(self) -> Any:
        """The counters, with what is held."""
        stats = self.stream.stats
        return attrs.evolve(stats, state_bytes=2**20) if self.is_closed else stats


@violates("RES-01", detector="sessions")
class StopsCountingItsState(CountedStream):
    """Reports no state_bytes from the third flush on."""

    @property
    def stats(self) -> Any:
        """The counters, less one."""
        stats = self.stream.stats
        return attrs.evolve(stats, state_bytes=None) if self.flushes >= 3 else stats


@violates("RES-02", detector="sessions")
class StopsCountingItsWork(CountedStream):
    """Reports no encoder_frames from the third flush on."""

    @property
    def stats(self) -> Any:
        """The counters, less one."""
        stats = self.stream.stats
        return attrs.evolve(stats, encoder_frames=None) if self.flushes >= 3 else stats


@violates("RES-03")
class ReportsBacklogLate(CountedStream):
    """Reports four seconds less as processed than it has processed, until a flush."""

    processed = 0.0

    def changed(self, emission: Emission, call: str) -> Emission:
        """Report it; no time is reported as stable."""
        late = 4.0 if call == "process_iter" else 0.0
        self.processed = max(self.processed, emission.processed_up_to - late)
        return emission.replace(processed_up_to=self.processed, stable_up_to=0.0)

    def reset(self) -> None:
        """Begin anew."""
        super().reset()
        self.processed = 0.0


@violates("RES-04")
class CountsForwardsByTheHundred(CountedStream):
    """Counts a hundred forward passes as one, so that each of its ids seems detokenised often."""

    @property
    def stats(self) -> Any:
        """The counters, with fewer forward passes."""
        stats = self.stream.stats
        return attrs.evolve(stats, decoder_forwards=(stats.decoder_forwards or 0) // 100)


@violates("HYP-01")
class ReadsCountAsWork(_Miscounting):
    """Runs a forward pass at each read of the hypothesis, by its own counter."""

    def get_buffer(self) -> Any:
        """Count it."""
        self.extra += 1
        return self.stream.get_buffer()


@violates("IN-01")
class CountsOneSampleTwice(CountedStream):
    """Counts a chunk of one sample as two samples, and decodes one."""

    samples = 0

    def insert_audio_chunk(self, audio: Any, end_time: float | None = None) -> None:
        """Note it."""
        self.stream.insert_audio_chunk(audio, end_time)
        self.samples += len(audio) == 1

    def reset(self) -> None:
        """Begin anew."""
        super().reset()
        self.samples = 0

    @property
    def stats(self) -> Any:
        """The counters, with more audio."""
        stats = self.stream.stats
        return attrs.evolve(stats, audio_seconds=stats.audio_seconds + self.samples / 16_000)


@violates("RES-02", detector="sessions")
class FreezesItsCounters(CountedStream):
    """Counts no more work after twenty seconds of audio."""

    frozen: Any = None

    @property
    def stats(self) -> Any:
        """The counters, those of the engine as they were."""
        stats = self.stream.stats
        if stats.audio_seconds < 20 or self.frozen is None:
            self.frozen = stats
        names = ("encoder_frames", "decoder_positions", "decoder_forwards", "detokenised_ids")
        return attrs.evolve(stats, **{name: getattr(self.frozen, name) for name in names})
