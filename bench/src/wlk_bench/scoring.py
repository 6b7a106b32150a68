"""Score one stream from its log: every metric that the reference allows."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import attrs

from wlk_bench.events import Call
from wlk_bench.metrics import timing
from wlk_bench.metrics.alignment import align_words
from wlk_bench.metrics.emitted import committed_words, screens, transcript
from wlk_bench.metrics.error_rate import ErrorCounts, character_edits, word_edits
from wlk_bench.metrics.lagging import long_yaal, source_laal
from wlk_bench.metrics.normalise import normaliser, unit_of
from wlk_bench.metrics.stability import Erasure, erasure, hold_back, missing_at_flushes
from wlk_bench.metrics.work import (
    Tick,
    WorkWindow,
    memory_slopes,
    ticks_of,
    work_totals,
    work_windows,
)

if TYPE_CHECKING:
    from wlk_bench.events import EventLog


@attrs.frozen(kw_only=True)
class SampleScore:
    """
    Everything measured on one stream; `wlk_bench.summary` pools the figures of several.

    Figures that need word times are empty or None if the reference has none.
    """

    id: str
    audio_seconds: float
    reference: str  #: normalised
    hypothesis: str  #: normalised
    reference_raw: str
    hypothesis_raw: str
    words: ErrorCounts
    characters: ErrorCounts
    words_raw: ErrorCounts
    characters_raw: ErrorCounts
    word_blocks: tuple[tuple[int, int], ...]
    character_blocks: tuple[tuple[int, int], ...]
    busy_seconds: float  #: inside calls of the processor, without waiting, loading or audio input
    ticks: tuple[Tick, ...]
    emission: tuple[timing.Delay, ...]
    timed_words: int  #: reference words with a time
    first_commit: timing.Delay | None
    first_display: timing.Delay | None
    finalisation: timing.Delay | None
    laal: timing.Delay | None
    long_yaal: tuple[timing.Delay, ...]
    erasure: Erasure
    hold_back: tuple[float, ...]
    word_times: tuple[tuple[float, float], ...]  #: errors of start and end, see `time_errors`
    backsteps: int  #: words that start before the previous word does
    missing_at_flushes: tuple[int, ...]
    work: dict[str, int]
    windows: tuple[WorkWindow, ...]
    memory: dict[str, float | None]  #: growth in bytes per hour of audio

    def to_json(self) -> dict[str, Any]:
        """Return this sample's part of a result; times are seconds, rates are fractions."""
        return {
            "id": self.id,
            "audio_seconds": self.audio_seconds,
            "busy_seconds": self.busy_seconds,
            "rtf": self.busy_seconds / self.audio_seconds if self.audio_seconds else None,
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
            "emission_unaware": [delay.unaware for delay in self.emission],
            "emission_aware": [delay.aware for delay in self.emission],
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
    header, reference = log.header, log.header.reference
    unit, seconds = unit_of(header.language), header.audio_seconds
    normalise, raw = normaliser(normaliser_name), normaliser("raw")
    text, emitted = raw(reference.text), raw(transcript(log))
    normalised, hypothesis = normalise(text), normalise(emitted)
    by_word = word_edits(normalised, hypothesis)
    by_character = character_edits(normalised, hypothesis)
    words = committed_words(log, unit)
    alignment = align_words([word.text for word in reference.words], [word.text for word in words])
    return SampleScore(
        id=header.audio,
        audio_seconds=seconds,
        reference=normalised,
        hypothesis=hypothesis,
        reference_raw=text,
        hypothesis_raw=emitted,
        words=by_word.counts,
        characters=by_character.counts,
        words_raw=word_edits(text, emitted).counts,
        characters_raw=character_edits(text, emitted).counts,
        word_blocks=by_word.blocks,
        character_blocks=by_character.blocks,
        busy_seconds=sum(call.duration for call in log.of(Call)),
        ticks=ticks_of(log),
        emission=timing.word_delays(reference, words, alignment),
        timed_words=len(reference.words),
        first_commit=timing.first_commit(reference, log),
        first_display=timing.first_display(reference, log),
        finalisation=timing.finalisation(reference, log),
        laal=source_laal(reference, words, seconds, unit),
        long_yaal=long_yaal(reference, words, seconds, unit),
        erasure=erasure(screens(log, unit)),
        hold_back=hold_back(log),
        word_times=timing.time_errors(reference, words, alignment),
        backsteps=sum(after.start < before.start for before, after in pairwise(words)),
        missing_at_flushes=(
            missing_at_flushes(reference, log, words, alignment) if reference.words else ()
        ),
        work=work_totals(log),
        windows=work_windows(log),
        memory=memory_slopes(log),
    )
