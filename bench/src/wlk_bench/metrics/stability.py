"""What a display takes back, what a policy holds back, and what a flush leaves out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from wlk_bench.events import FLUSHES, AudioIn, Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wlk_bench.events import EventLog
    from wlk_bench.metrics.alignment import WordAlignment
    from wlk_bench.metrics.emitted import EmittedWord, Screen
    from wlk_bench.reference import Reference


@attrs.frozen
class Erasure:
    """Words taken back, and words of the final text; below 0.2 a display counts as stable."""

    erased: int
    final: int


def erasure(displayed: Iterable[Screen]) -> Erasure:
    """
    Return the normalised erasure of the displayed text, committed and hypothesis.

    Each change costs the words after the longest prefix that stays
    (https://aclanthology.org/2020.iwslt-1.27/).
    """
    erased = 0
    shown: list[str] = []
    for screen in displayed:
        before, after = shown[screen.base :], [word.text for word in screen.tail]
        kept = 0
        while kept < min(len(before), len(after)) and before[kept] == after[kept]:
            kept += 1
        erased += len(before) - kept
        shown[screen.base :] = after
    return Erasure(erased, len(shown))


def hold_back(log: EventLog) -> tuple[float, ...]:
    """
    Return the seconds between the end of final text and the end of the audio after each chunk.

    A policy that commits fast holds little back.  Audio without speech counts as held back where a
    backend does not raise `stable_up_to`.
    """
    held: list[float] = []
    is_open = False
    for event in log.events:
        if isinstance(event, AudioIn):
            held.append(event.audio_time)
            is_open = True
        elif isinstance(event, Call) and event.kind in FLUSHES:
            is_open = False
        elif isinstance(event, Call) and is_open and not event.is_failed:
            held[-1] = max(0.0, event.audio_time - event.stable_up_to)
    return tuple(held)


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
    pairs = (*alignment.equal, *alignment.substituted)
    committed = {i: words[j].audio_time for i, j in pairs}
    missing: list[int] = []
    since = 0.0
    for call in log.of(Call):
        if call.kind not in FLUSHES or call.is_failed:
            continue
        at = call.audio_time
        spoken = [i for i, word in enumerate(reference.words) if since < word.end <= at]
        missing.append(sum(committed.get(i, math.inf) > at for i in spoken))
        since = at
    return tuple(missing)
