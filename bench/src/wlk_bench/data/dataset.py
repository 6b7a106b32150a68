"""
Streams to be measured, and data sets of them as the command line names them.

A data set is digits, digits:MINUTES, librispeech:DIRECTORY or manifest:FILE.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs
import numpy as np

from wlk_bench.errors import DataError
from wlk_bench.recorder import Pause
from wlk_bench.reference import Reference, ReferenceSegment, ReferenceWord
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = [
    "CHAPTER_GAP_SECONDS",
    "Dataset",
    "Mode",
    "Sample",
    "chaptered",
    "load_dataset",
    "spread",
]

Mode = Literal["utterance", "chapter", "single-shot"]
MAX_MINUTES = 600.0  #: of one composed stream: ten hours
CHAPTER_GAP_SECONDS = 0.5  # zeros between the utterances of a chapter, as published figures have


@attrs.frozen(kw_only=True)
class Sample:
    """
    Audio that is opened on demand, and the reference.

    `audio` yields float32 arrays at 16 kHz, and pauses where silence is reported to the stream.
    `group` names the chapter or voice that samples share; `speaker` names their speaker.
    """

    id: str
    audio: Callable[[], Iterator[NDArray[np.float32] | Pause]]
    seconds: float
    reference: Reference
    group: str = ""
    speaker: str = ""


@attrs.frozen(kw_only=True)
class Dataset:
    """
    Samples, and the normaliser by which their texts are compared.

    `name` identifies the streams: two results of one name and mode have the same ones, and only
    those are comparable.
    """

    name: str
    mode: Mode
    samples: tuple[Sample, ...]
    language: str | None
    normaliser: str


def load_dataset(
    text: str, *, mode: Mode = "utterance", limit: int | None = None, reports_pauses: bool = False
) -> Dataset:
    """
    Return the data set that *text* names.

    "digits:MINUTES" is one long stream, whatever the mode.
    `limit` takes that many streams, spread over the speakers.  Chapters are whole: their
    utterances are joined first.  With `reports_pauses` the gaps between them are silences.

    Raises:
        DataError: the kind is unknown, or the data cannot be used.

    """
    kind, _, path = text.partition(":")
    language: str | None = "en"
    normaliser = "english"
    if kind == "digits" and not path:
        from wlk_bench.data.digits import digits  # noqa: PLC0415 -- decodes the clips

        # The English normaliser would join "four two" to "42".
        samples, normaliser, name = digits(), "basic", "digits"
    elif kind == "digits":
        from wlk_bench.data.digits import long_digits  # noqa: PLC0415 -- decodes the clips

        minutes = _minutes(path)
        samples, normaliser, name, mode = long_digits(minutes), "basic", text, "chapter"
    elif kind == "librispeech" and path:
        from wlk_bench.data.recordings import librispeech  # noqa: PLC0415 -- brings av

        folder = Path(path).expanduser()
        samples, name = librispeech(folder), f"librispeech:{folder.resolve().name}"
    elif kind == "manifest" and path:
        from wlk_bench.data.recordings import manifest  # noqa: PLC0415 -- brings av

        file = Path(path).expanduser()
        samples, name, language, normaliser = manifest(file), f"manifest:{file.name}", None, "basic"
    else:
        raise DataError(
            "expected --data digits, digits:MINUTES, librispeech:DIRECTORY or manifest:FILE; "
            f"got {text!r}"
        )
    if limit is not None and limit < 1:
        raise DataError(f"expected --limit of at least 1, got {limit}")
    if mode == "chapter":
        samples = chaptered(samples, reports_pauses=reports_pauses)
        name += ", pauses as silences" * reports_pauses
    chosen = spread(samples, limit)
    if len(chosen) < len(samples):
        name = f"{name}[{len(chosen)} of {len(samples)}]"
    return Dataset(
        name=name,
        mode=mode,
        samples=chosen,
        language=language,
        normaliser=normaliser,
    )


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes <= MAX_MINUTES:
        raise DataError(
            f"expected --data digits:MINUTES with up to {MAX_MINUTES:g} minutes, got {text!r}"
        )
    return minutes


def chaptered(
    samples: Iterable[Sample],
    *,
    gap_seconds: float = CHAPTER_GAP_SECONDS,
    reports_pauses: bool = False,
) -> tuple[Sample, ...]:
    """
    Join the samples of each group to one stream, in order, with a gap between them.

    The gap is zeros, or, with `reports_pauses`, a silence that is reported to the processor.  Each
    sample becomes a segment of the reference.
    """
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group, []).append(sample)
    return tuple(
        _joined(group, parts, gap_seconds, reports_pauses=reports_pauses)
        for group, parts in groups.items()
    )


def spread(samples: Sequence[Sample], limit: int | None) -> tuple[Sample, ...]:
    """Return the first *limit* samples, taken from the speakers in turn."""
    if limit is None or limit >= len(samples):
        return tuple(samples)
    turns: dict[str, int] = {}
    ranked: list[tuple[int, int]] = []
    for index, sample in enumerate(samples):
        turn = turns.get(sample.speaker, 0)
        turns[sample.speaker] = turn + 1
        ranked.append((turn, index))
    chosen = sorted(index for _, index in sorted(ranked)[:limit])
    return tuple(samples[index] for index in chosen)


def _joined(
    group: str, parts: Sequence[Sample], gap_seconds: float, *, reports_pauses: bool
) -> Sample:
    gap_samples = round(gap_seconds * SAMPLE_RATE)
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
            words=words if has_times else (),
            segments=segments,
        ),
        group=group,
        speaker=parts[0].speaker,
    )
