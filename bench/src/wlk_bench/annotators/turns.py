"""Metrics of the ends of turns: false ends, missed ends, and how late an end is detected."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from wlk_bench.annotators.playing import audio_of
from wlk_bench.metrics.statistics import Distribution, pooled_rate
from wlk_core.processor import SAMPLE_RATE
from wlk_live.session import Endpoint
from wlk_live.vad import GateParameters, SilenceEnded, SilenceGate, SilenceStarted, SileroDetector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_bench.annotators.playing import Played
    from wlk_bench.data import Sample

SILENCES = (0.4, 0.6, 0.8, 1.2)  #: seconds; rules to compare a detector with
_PAUSE = GateParameters(silence_seconds=0.2, pre_roll=0.0)
_HANG_OVER = _PAUSE.silence_seconds - _PAUSE.min_silence  # seconds that the gate adds to speech
_EARLY = 0.3  # seconds that an end in the reference may precede the last frame of speech


@attrs.frozen
class Pause:
    """A silence of 0.2 s or more, from the last frame of speech to the next one."""

    start: float
    end: float
    ends: tuple[float, ...]  #: ends of turns in the reference that lie in this pause


#: For each pause, the seconds from its start until it was taken for an end; None if it never was.
Ended: TypeAlias = dict[Pause, float | None]


def pauses_of(sample: Sample) -> list[Pause]:
    """Return the pauses of *sample* in which a turn ends, and those inside turns."""
    gate = SilenceGate(SileroDetector(), _PAUSE)
    events = [event for piece in audio_of(sample) for event in gate.push(piece)] + gate.flush()
    pauses, start = [], None
    for event in events:
        if isinstance(event, SilenceStarted):
            start = event.at_sample / SAMPLE_RATE - _HANG_OVER
        elif isinstance(event, SilenceEnded) and start is not None:
            end = event.end_sample / SAMPLE_RATE
            ends = tuple(time for time in sample.ends if start - _EARLY <= time <= end)
            if ends or any(turn.start <= start and end <= turn.end for turn in sample.turns):
                pauses.append(Pause(start, end, ends))
    return pauses


def figures(played: Played) -> dict[str, Any]:
    """Return the figures of a detector and of SILENCES: fractions, and seconds of audio."""
    recordings: list[Ended] = []
    waited = lost = 0
    for sample, events in played:
        ended: Ended = dict.fromkeys(pauses_of(sample))
        lost += len({*sample.ends}.difference(*(pause.ends for pause in ended)))
        endpoints = [each.event for each in events if isinstance(each.event, Endpoint)]
        for event, pause in product(endpoints, ended):
            if event.reason != "end" and pause.start <= event.time <= pause.end:
                ended[pause] = event.audio_time - pause.start
                waited += bool(pause.ends) and event.reason == "silence"
        recordings.append(ended)
    pauses = [pause for each in recordings for pause in each]
    inside = sorted((p.end - p.start for p in pauses if not p.ends), reverse=True)
    falls = sum(d is not None for each in recordings for p, d in each.items() if not p.ends)
    rules = {f"silence of {each:g} s": _silence(recordings, each) for each in SILENCES}
    for length in inside[falls : falls + 1]:  # the shortest with no more false ends
        rules[f"silence of {length:.2f} s, as safe"] = _silence(recordings, length)
    return {
        "pauses inside turns": len(inside),
        "ends of turns": len(pauses) - len(inside),
        "ends without a pause": lost,
        "ends by the silence of the session": waited,
        "detector": _rule(recordings),
        **rules,
    }


def _silence(recordings: Sequence[Ended], seconds: float) -> dict[str, Any]:
    """Return the figures of the rule that every silence longer than *seconds* ends a turn."""
    return _rule(
        [{p: seconds if p.end - p.start > seconds else None for p in each} for each in recordings]
    )


def _rule(recordings: Sequence[Ended]) -> dict[str, Any]:
    inside = [[d is not None for p, d in each.items() if not p.ends] for each in recordings]
    ends = [delay for each in recordings for p, delay in each.items() if p.ends]
    return {
        "false ends": pooled_rate([(sum(each), len(each)) for each in inside]),
        "missed ends": ends.count(None),
        "delay": Distribution.figures((d for d in ends if d is not None), "p50", "mean"),
    }
