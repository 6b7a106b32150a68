"""A stream to measure: the source of its audio, and its reference."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_bench.recorder import Pause
from wlk_bench.reference import Reference, ReferenceSegment, ReferenceWord
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from wlk_bench.reference import ReferenceTurn

CHAPTER_GAP_SECONDS = 0.5  # zeros between utterances of a chapter, as in published figures


@attrs.frozen(kw_only=True)
class Sample:
    """
    Audio that is opened on demand, and its reference.

    `audio` yields float32 arrays at 16 kHz, and a `Pause` for each silence to be reported.
    `group` is the chapter or voice that several samples share, and `speaker` their speaker.
    `turns`, `ends` (when each speaker has finished) and `translation` are the references for
    annotators.
    """

    id: str
    audio: Callable[[], Iterator[NDArray[np.float32] | Pause]]
    seconds: float
    reference: Reference
    group: str = ""
    speaker: str = ""
    turns: tuple[ReferenceTurn, ...] = ()
    ends: tuple[float, ...] = ()
    translation: str = ""


def join_chapters(samples: Iterable[Sample], *, reports_pauses: bool = False) -> tuple[Sample, ...]:
    """
    Join the samples of each group into one stream, in order, with half a second between them.

    The gap is zeros or, with `reports_pauses`, a silence that is reported to the processor.  Each
    sample becomes a segment of the reference.
    """
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    return tuple(
        _joined(group, parts, reports_pauses=reports_pauses) for group, parts in groups.items()
    )


def sample_evenly(samples: Sequence[Sample], limit: int | None) -> tuple[Sample, ...]:
    """Return *limit* samples (None for all) in order, spread evenly over the speakers."""
    taken: Counter[str] = Counter()
    ranked: list[tuple[int, int]] = []
    for index, sample in enumerate(samples):
        ranked.append((taken[sample.speaker], index))
        taken[sample.speaker] += 1
    chosen = sorted(index for _, index in sorted(ranked)[:limit])
    return tuple(samples[index] for index in chosen)


def _joined(group: str, parts: Sequence[Sample], *, reports_pauses: bool) -> Sample:
    gap_samples = round(CHAPTER_GAP_SECONDS * SAMPLE_RATE)
    words: list[ReferenceWord] = []
    segments: list[ReferenceSegment] = []
    position = 0
    for part in parts:
        start = position / SAMPLE_RATE
        length = round(part.seconds * SAMPLE_RATE)
        segments.append(
            ReferenceSegment(part.reference.text, start, (position + length) / SAMPLE_RATE)
        )
        words += [
            attrs.evolve(word, start=word.start + start, end=word.end + start)
            for word in part.reference.words
        ]
        position += length + gap_samples
    has_times = all(part.reference.words or not part.reference.text for part in parts)

    def audio() -> Iterator[NDArray[np.float32] | Pause]:
        for index, part in enumerate(parts):
            if index and reports_pauses:
                yield Pause(gap_samples / SAMPLE_RATE)
            elif index:
                yield np.zeros(gap_samples, dtype=np.float32)
            yield from part.audio()

    return Sample(
        id=group,
        audio=audio,
        seconds=(position - gap_samples) / SAMPLE_RATE,
        reference=Reference(
            text=" ".join(part.reference.text for part in parts),
            words=tuple(words) if has_times else (),
            segments=tuple(segments),
        ),
        group=group,
        speaker=parts[0].speaker,
    )
