"""Words missing at flushes, which must commit every word whose audio was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_bench.events import FLUSHES, Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_bench.events import EventLog
    from wlk_bench.metrics.alignment import WordAlignment
    from wlk_bench.metrics.emitted import EmittedWord
    from wlk_bench.reference import Reference

__all__ = ["missing_at_flushes"]


def missing_at_flushes(
    reference: Reference,
    log: EventLog,
    words: Sequence[EmittedWord],
    alignment: WordAlignment,
) -> tuple[int, ...]:
    """
    Return the number of words that each flush missed of those spoken since the flush before.

    A word is missed if neither it nor a substitute for it was committed by the end of the flush.
    """
    partners = alignment.partners
    missing: list[int] = []
    since = 0.0
    for call in log.of(Call):
        if call.kind not in FLUSHES or call.is_failed:
            continue
        spoken = [
            i for i, word in enumerate(reference.words) if since < word.end <= call.audio_time
        ]
        missing.append(
            sum(
                i not in partners or words[partners[i]].audio_time > call.audio_time for i in spoken
            )
        )
        since = call.audio_time
    return tuple(missing)
