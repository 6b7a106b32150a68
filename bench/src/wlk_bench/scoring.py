"""Score one stream from its log: every metric that the reference allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from wlk_bench.metrics.alignment import align_words
from wlk_bench.metrics.emission import (
    Delay,
    WordDelay,
    finalisation,
    first_commit,
    first_display,
    word_delays,
)
from wlk_bench.metrics.emitted import committed_words, displayed_words, screens, transcript
from wlk_bench.metrics.erasure import Erasure, erasure
from wlk_bench.metrics.error_rate import (
    Distance,
    ErrorCounts,
    character_edits,
    distances,
    word_edits,
)
from wlk_bench.metrics.flush import missing_at_flushes
from wlk_bench.metrics.growth import WorkWindow, memory_slopes, work_totals, work_windows
from wlk_bench.metrics.hold_back import hold_back
from wlk_bench.metrics.lagging import laal, yaal
from wlk_bench.metrics.mwer_segments import mwer_segments
from wlk_bench.metrics.normalise import normaliser, unit_of
from wlk_bench.metrics.real_time import RealTime, real_time
from wlk_bench.metrics.soft_segments import soft_segments
from wlk_bench.metrics.word_time import TimeErrors, time_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_bench.events import EventLog
    from wlk_bench.metrics.emitted import EmittedWord
    from wlk_bench.metrics.growth import Slope
    from wlk_bench.reference import Reference, ReferenceSegment

__all__ = ["Lagging", "SampleScore", "long_yaal", "score", "source_laal", "stream_laal"]


@attrs.frozen(kw_only=True)
class Lagging:
    """Average lagging of one stream or segment; None where no word counts."""

    unaware: float | None
    aware: float | None


@attrs.frozen(kw_only=True)
class SampleScore:
    """
    Everything measured on one stream; figures of several are pooled by `wlk_bench.summary`.

    Figures that need word times are empty or None where the reference has none.
    """

    id: str
    audio_seconds: float
    reference: str  #: normalised
    hypothesis: str  #: normalised
    reference_raw: str
    hypothesis_raw: str
    words: ErrorCounts
    characters: ErrorCounts
    words_raw: Distance
    characters_raw: Distance
    word_blocks: tuple[tuple[int, int], ...]
    character_blocks: tuple[tuple[int, int], ...]
    time: RealTime
    emission: tuple[WordDelay, ...]
    timed_words: int  #: reference words with a time
    first_commit: Delay | None
    first_display: Delay | None
    finalisation: Delay | None
    laal: Lagging | None
    stream_laal: tuple[Lagging, ...]
    stream_laal_displayed: tuple[Lagging, ...]
    long_yaal: tuple[Lagging, ...]
    erasure: Erasure
    hold_back: tuple[float, ...]
    word_times: TimeErrors
    missing_at_flushes: tuple[int, ...]
    work: dict[str, int]
    windows: tuple[WorkWindow, ...]
    memory: dict[str, Slope | None]

    def to_json(self) -> dict[str, Any]:
        """Return the record of this sample, in seconds and fractions."""
        return {
            "id": self.id,
            "audio_seconds": self.audio_seconds,
            "busy_seconds": self.time.busy_seconds,
            "rtf": self.time.rtf,
            "wer": self.words.rate,
            "cer": self.characters.rate,
            "wer_raw": self.words_raw.rate,
            "cer_raw": self.characters_raw.rate,
            "words": attrs.asdict(self.words),
            "characters": attrs.asdict(self.characters),
            "word_blocks": self.word_blocks,
            "character_blocks": self.character_blocks,
            "reference": self.reference_raw,
            "hypothesis": self.hypothesis_raw,
            "reference_normalised": self.reference,
            "hypothesis_normalised": self.hypothesis,
            "emission_unaware": [word.delay.unaware for word in self.emission],
            "emission_aware": [word.delay.aware for word in self.emission],
            "missing_at_flushes": self.missing_at_flushes,
            "erased_words": self.erasure.erased,
            "work": self.work,
            "windows": [attrs.asdict(window) for window in self.windows],
        }


def score(log: EventLog, *, normaliser_name: str) -> SampleScore:
    """
    Return the score of one stream; the same log and normaliser give the same score.

    Raises:
        DataError: the normaliser is unknown.

    """
    header = log.header
    reference = header.reference
    unit = unit_of(header.language)
    normalise = normaliser(normaliser_name)
    raw = normaliser("raw")
    text, emitted = reference.text, transcript(log)
    normalised, hypothesis = normalise(text), normalise(emitted)
    words = committed_words(log, unit)
    alignment = align_words([word.text for word in reference.words], [word.text for word in words])
    shown = tuple(screens(log, unit))
    by_commit, by_display = _stream_laals(
        reference, words, displayed_words(shown), header.audio_seconds, unit
    )
    by_word = word_edits(normalised, hypothesis)
    by_character = character_edits(normalised, hypothesis)
    words_raw, characters_raw = distances(text, emitted)
    return SampleScore(
        id=header.audio,
        audio_seconds=header.audio_seconds,
        reference=normalised,
        hypothesis=hypothesis,
        reference_raw=raw(text),
        hypothesis_raw=raw(emitted),
        words=by_word.counts,
        characters=by_character.counts,
        words_raw=words_raw,
        characters_raw=characters_raw,
        word_blocks=by_word.blocks,
        character_blocks=by_character.blocks,
        time=real_time(log),
        emission=word_delays(reference, words, alignment),
        timed_words=len(reference.words),
        first_commit=first_commit(reference, log),
        first_display=first_display(reference, log),
        finalisation=finalisation(reference, log),
        laal=source_laal(reference, words, header.audio_seconds, unit),
        stream_laal=by_commit,
        stream_laal_displayed=by_display,
        long_yaal=long_yaal(reference, words, header.audio_seconds, unit),
        erasure=erasure(shown),
        hold_back=hold_back(log),
        word_times=time_errors(reference, words, alignment),
        missing_at_flushes=(
            missing_at_flushes(reference, log, words, alignment) if reference.words else ()
        ),
        work=work_totals(log),
        windows=work_windows(log),
        memory=memory_slopes(log),
    )


def source_laal(
    reference: Reference, words: Sequence[EmittedWord], audio_seconds: float, unit: str = "word"
) -> Lagging | None:
    """Return the LAAL of a whole stream read as one sentence."""
    length = len(_units(reference.text, unit))
    unaware, aware = (
        laal(delays, source_seconds=audio_seconds, reference_length=length)
        for delays in _delays(words)
    )
    return None if unaware is None else Lagging(unaware=unaware, aware=aware)


def stream_laal(
    reference: Reference, words: Sequence[EmittedWord], audio_seconds: float, unit: str = "word"
) -> tuple[Lagging, ...]:
    """
    Return the LAAL of each segment, after re-segmenting to the reference; their mean is StreamLAAL.

    Version 2 of https://aclanthology.org/2024.acl-long.202, which leaves out segments without
    words.
    """
    texts = [_units(part.text, unit) for part in reference.segments_within(audio_seconds)]
    ranges = mwer_segments(texts, [word.text for word in words])
    return _segment_laal(reference, words, audio_seconds, unit, ranges=ranges)


def _segment_laal(
    reference: Reference,
    words: Sequence[EmittedWord],
    audio_seconds: float,
    unit: str,
    *,
    ranges: Sequence[range],
) -> tuple[Lagging, ...]:
    scores: list[Lagging] = []
    for segment, own in zip(reference.segments_within(audio_seconds), ranges, strict=True):
        length = len(_units(segment.text, unit))
        unaware, aware = (
            laal(delays, source_seconds=segment.seconds, reference_length=length)
            for delays in _delays([words[i] for i in own], segment)
        )
        if unaware is not None:
            scores.append(Lagging(unaware=unaware, aware=aware))
    return tuple(scores)


def _stream_laals(
    reference: Reference,
    committed: Sequence[EmittedWord],
    displayed: Sequence[EmittedWord],
    audio_seconds: float,
    unit: str,
) -> tuple[tuple[Lagging, ...], tuple[Lagging, ...]]:
    """Return the StreamLAAL of committed and of displayed words."""
    if [word.text for word in committed] != [word.text for word in displayed]:
        # Some text was shown to the end and never committed.
        return (
            stream_laal(reference, committed, audio_seconds, unit),
            stream_laal(reference, displayed, audio_seconds, unit),
        )
    texts = [_units(part.text, unit) for part in reference.segments_within(audio_seconds)]
    ranges = mwer_segments(texts, [word.text for word in committed])
    by_commit, by_display = (
        _segment_laal(reference, words, audio_seconds, unit, ranges=ranges)
        for words in (committed, displayed)
    )
    return by_commit, by_display


def long_yaal(
    reference: Reference, words: Sequence[EmittedWord], audio_seconds: float, unit: str = "word"
) -> tuple[Lagging, ...]:
    """
    Return the YAAL of each segment, after soft segmentation; their mean is LongYAAL.

    The recording ends with its last segment.  A segment without words, or whose words were all
    emitted after that, is left out.
    """
    segments = reference.segments_within(audio_seconds)
    end = max(segment.end for segment in segments)
    texts = [_units(segment.text, unit) for segment in segments]
    owned = soft_segments(texts, [word.text for word in words])
    scores: list[Lagging] = []
    for segment, text, own in zip(segments, texts, owned, strict=True):
        unaware, aware = (
            yaal(
                delays,
                source_seconds=segment.seconds,
                reference_length=len(text),
                recording_seconds=end - segment.start,
            )
            for delays in _delays([words[i] for i in own], segment)
        )
        if unaware is not None:
            scores.append(Lagging(unaware=unaware, aware=aware))
    return tuple(scores)


def _delays(
    words: Sequence[EmittedWord], segment: ReferenceSegment | None = None
) -> tuple[list[float], list[float]]:
    """Return the emission times from the start of a segment, unaware and aware."""
    start = 0.0 if segment is None else segment.start
    return [word.audio_time - start for word in words], [word.wall - start for word in words]


def _units(text: str, unit: str) -> list[str]:
    return list("".join(text.split())) if unit == "char" else text.split()
