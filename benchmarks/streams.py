"""Generate streams of connected digits with known words, and measure the cost of decoding one."""

from __future__ import annotations

from itertools import count
from time import process_time
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_bench.events import EventLog, Header
from wlk_bench.metrics.statistics import Distribution
from wlk_bench.recorder import Clock, record_stream
from wlk_bench.reference import Reference, ReferenceWord
from wlk_bench.scoring import SampleScore, score
from wlk_conformance.testing import connected_digits
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_core import OnlineProcessor

CHUNK_SECONDS = 1.0
_WORDS = 6  # words in an utterance: about four seconds


@attrs.frozen(eq=False)
class Material:
    """Speech, float32[n] at 16 kHz, and its reference, with word times."""

    audio: NDArray[np.float32]
    reference: Reference

    @property
    def seconds(self) -> float:
        """The length of the audio."""
        return len(self.audio) / SAMPLE_RATE


def stream_of(seconds: float) -> Material:
    """
    Return as many whole utterances as fit, in several voices, padded with silence to *seconds*.

    Pauses within an utterance last up to 0.6 s, and pauses between utterances one second.
    """
    audio = np.zeros(round(seconds * SAMPLE_RATE), dtype=np.float32)
    words: list[ReferenceWord] = []
    first = 0
    for seed in count():
        clip = connected_digits(_WORDS, seed=seed, gap=(0.05, 0.6), lead=0.2, tail=0.8)
        end = first + len(clip.audio)
        if end > len(audio):
            break
        audio[first:end] = clip.audio
        shift = first / SAMPLE_RATE
        words += [
            ReferenceWord(word.text.strip(), word.start + shift, word.end + shift)
            for word in clip.words
        ]
        first = end
    return Material(
        audio, Reference(text=" ".join(word.text for word in words), words=tuple(words))
    )


@attrs.frozen
class Row:
    """The score of a stream; latency runs from the true end of a recognised word to its commit."""

    name: str
    score: SampleScore
    latency: Distribution

    def per_second(self, counter: str) -> float:
        """Return a work counter per second of audio; 0 if it was not counted."""
        return self.score.work.get(counter, 0) / self.score.audio_seconds

    @property
    def cost(self) -> float:
        """The processor seconds per second of audio."""
        return self.score.busy_seconds / self.score.audio_seconds


def measure(name: str, processor: OnlineProcessor, material: Material) -> Row:
    """
    Run *material* through *processor* in one-second chunks and return the figures.

    The clock is processor time, so that other load on the machine does not change the figures.
    """
    clock = Clock(timer=process_time)
    events = tuple(
        record_stream(processor, [material.audio], chunk_seconds=CHUNK_SECONDS, clock=clock)
    )
    header = Header(audio=name, audio_seconds=material.seconds, reference=material.reference)
    scored = score(EventLog(header=header, events=events), normaliser_name="basic")
    latency = Distribution.of(delay.unaware for delay in scored.emission)
    if latency is None:
        raise SystemExit(f"{name} recognised no word at all; nothing can be compared")
    return Row(name, scored, latency)


def print_heading(width: int) -> None:
    """Print the column titles; *width* is that of the row names."""
    print(f"{'':{width}}  frames/s  positions/s  forwards/s  words wrong     WER  "
          "latency p50     p90  CPU s/s     CPU")  # fmt: skip


def print_row(row: Row, *, first: Row, width: int) -> None:
    """Print a row, with its processor time also as a multiple of that of *first*."""
    words = row.score.words
    print(
        f"{row.name:{width}}  {row.per_second('encoder_frames'):8.0f}  "
        f"{row.per_second('decoder_positions'):11.1f}  {row.per_second('decoder_forwards'):10.1f}  "
        f"{f'{words.errors}/{words.reference_length}':>11}  "
        f"{100 * words.errors / words.reference_length:4.2f} %  "
        f"{row.latency.p50:9.2f} s  {row.latency.p90:.2f} s  {row.cost:7.3f}  "
        f"{row.cost / first.cost:5.2f}x",
        flush=True,
    )
