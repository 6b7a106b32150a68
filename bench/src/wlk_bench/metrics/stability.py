"""The text that a display erases, that a policy holds back and that a flush leaves out."""

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
    """Words erased, and words of the final text; a ratio below 0.2 counts as stable."""

    erased: int
    final: int


def erasure(displayed: Iterable[Screen]) -> Erasure:
    """
    Return the erasure of the displayed text, committed and hypothesis.

    Each change erases the words after the longest prefix that stays
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
    Return, for each chunk, the seconds from the end of the final text to the end of the audio.

    A policy that commits quickly holds back little.  Audio without speech counts as held back if
    the backend does not raise `stable_up_to` over it.
    """
    held: list[float] = []
    is_in_chunk = False
    for event in log.events:
        if isinstance(event, AudioIn):
            held.append(event.audio_time)
            is_in_chunk = True
        elif isinstance(event, Call) and event.kind in FLUSHES:
            is_in_chunk = False
        elif isinstance(event, Call) and is_in_chunk and not event.is_failed:
            held[-1] = max(0.0, event.audio_time - event.stable_up_to)
    return tuple(held)


def missing_at_flushes(
    reference: Reference,
    log: EventLog,
    words: Sequence[EmittedWord],
    alignment: WordAlignment,
) -> tuple[int, ...]:
    """
    Return, for each flush, how many of the words spoken since the previous one it missed.

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
