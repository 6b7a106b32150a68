"""One line of the comparison: cost, errors and latency of a stream."""

from __future__ import annotations

from time import process_time
from typing import TYPE_CHECKING

import attrs

from wlk_bench.events import Call, EventLog, Header
from wlk_bench.metrics.alignment import align_words
from wlk_bench.metrics.emitted import committed_words, transcript
from wlk_bench.metrics.error_rate import word_edits
from wlk_bench.metrics.normalise import normaliser
from wlk_bench.metrics.statistics import Distribution
from wlk_bench.metrics.timing import word_delays
from wlk_bench.metrics.work import work_totals
from wlk_bench.recorder import Clock, record_stream

if TYPE_CHECKING:
    from digit_streams.material import Material
    from wlk_core import OnlineProcessor

__all__ = [
    "CHUNK_SECONDS",
    "Row",
    "measure",
    "print_heading",
    "print_row",
]

CHUNK_SECONDS = 1.0


@attrs.frozen(kw_only=True)
class Row:
    """
    The figures of one stream.

    Frames (mel, 10 ms, padding included), positions, forwards and host syncs (None where the
    backend does not count them) are per second of audio.  Errors, words of the reference and words
    committed are counts.  Latency is from the true end of a word to its commit in seconds of audio,
    over the words recognised.  Processor time is in seconds, of all calls.
    """

    name: str
    audio_seconds: float
    encoder_frames: float
    decoder_positions: float
    decoder_forwards: float
    host_syncs: float | None = None
    errors: int
    words: int
    committed: int = 0
    latency_median: float
    latency_p90: float
    processor_seconds: float

    @property
    def wer(self) -> float:
        """Word errors, as a fraction."""
        return self.errors / self.words


def measure(name: str, processor: OnlineProcessor, material: Material) -> Row:
    """
    Run *material* through *processor* in chunks of a second and return the figures.

    The clock is processor time, so that other load of the machine does not change the figures.
    """
    clock = Clock(timer=process_time)
    events = record_stream(processor, [material.audio], chunk_seconds=CHUNK_SECONDS, clock=clock)
    header = Header(
        audio=name,
        audio_seconds=material.seconds,
        backend=name,
        chunk_seconds=CHUNK_SECONDS,
        reference=material.reference,
    )
    log = EventLog(header=header, events=events)
    normalise = normaliser("basic")
    reference = material.reference
    edits = word_edits(normalise(reference.text), normalise(transcript(log))).counts
    words = committed_words(log)
    alignment = align_words([word.text for word in reference.words], [word.text for word in words])
    delays = Distribution.of(delay.unaware for delay in word_delays(reference, words, alignment))
    if delays is None:
        raise SystemExit(f"{name} recognised no word at all; nothing can be compared")
    work = {key: value / material.seconds for key, value in work_totals(log).items()}
    return Row(
        name=name,
        audio_seconds=material.seconds,
        encoder_frames=work["encoder_frames"],
        decoder_positions=work["decoder_positions"],
        decoder_forwards=work["decoder_forwards"],
        host_syncs=work.get("host_syncs"),
        errors=edits.errors,
        words=edits.reference_length,
        committed=len(words),
        latency_median=delays.p50,
        latency_p90=delays.p90,
        processor_seconds=sum(call.duration for call in log.of(Call)),
    )


def print_heading(width: int) -> None:
    """Print the names of the columns, over rows with names of that width."""
    print(f"{'':{width}}  frames/s  positions/s  forwards/s  words wrong     WER  "
          "latency p50     p90  CPU s/s     CPU")  # fmt: skip


def print_row(row: Row, *, first: Row, width: int) -> None:
    """Print a row as soon as it is measured; processor time also as a multiple of the first's."""
    cost, unit = (r.processor_seconds / r.audio_seconds for r in (row, first))
    wrong = f"{row.errors}/{row.words}"
    print(
        f"{row.name:{width}}  {row.encoder_frames:8.0f}  {row.decoder_positions:11.1f}  "
        f"{row.decoder_forwards:10.1f}  {wrong:>11}  {100 * row.wer:4.2f} %  "
        f"{row.latency_median:9.2f} s  {row.latency_p90:.2f} s  {cost:7.3f}  {cost / unit:5.2f}x",
        flush=True,
    )
