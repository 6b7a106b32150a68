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
# Seven frames of the detector, the fewest that last 0.2 s.
_PAUSE = GateParameters(silence_seconds=0.224, pre_roll=0.0)
_EARLY = 0.3  # seconds that an end in the reference may precede the last frame of speech


@attrs.frozen
class Pause:
    """A silence of 0.2 s or more, from the last frame of speech to the next one."""

    start: float
    end: float
    ends: tuple[float, ...]  #: ends of turns in the reference that lie in this pause

    @property
    def seconds(self) -> float:
        """The length of the pause."""
        return self.end - self.start


#: For each pause, the seconds from its start until it was taken for an end; None if it never was.
Ended: TypeAlias = dict[Pause, float | None]


def pauses_of(sample: Sample) -> list[Pause]:
    """Return the pauses of *sample* in which a turn ends, and those inside turns."""
    gate = SilenceGate(SileroDetector(), _PAUSE)
    events = [event for piece in audio_of(sample) for event in gate.push(piece)] + gate.flush()
    pauses, start = [], None
    for event in events:
        if isinstance(event, SilenceStarted):
            start = event.at_sample / SAMPLE_RATE - _PAUSE.hang_over
        elif isinstance(event, SilenceEnded) and start is not None:
            end = event.end_sample / SAMPLE_RATE
            ends = tuple(time for time in sample.ends if start - _EARLY <= time <= end)
            if ends or any(turn.start <= start and end <= turn.end for turn in sample.turns):
                pauses.append(Pause(start, end, ends))
    return pauses


def figures(played: Played) -> dict[str, Any]:
    """Return the figures of a detector and of SILENCES: fractions, and seconds of audio."""
    recordings: list[Ended] = []
    ends_by_silence = ends_without_pause = 0
    for sample, events in played:
        ended: Ended = dict.fromkeys(pauses_of(sample))
        ends_in_pauses = {time for pause in ended for time in pause.ends}
        ends_without_pause += len(set(sample.ends) - ends_in_pauses)
        endpoints = [each.event for each in events if isinstance(each.event, Endpoint)]
        for event, pause in product(endpoints, ended):
            if event.reason != "end" and pause.start <= event.time <= pause.end:
                ended[pause] = event.audio_time - pause.start
                if pause.ends and event.reason == "silence":
                    ends_by_silence += 1
        recordings.append(ended)
    pauses = [pause for each in recordings for pause in each]
    # From the longest to the shortest.
    inside = sorted((pause.seconds for pause in pauses if not pause.ends), reverse=True)
    rules = {f"silence of {each:g} s": _silence(recordings, each) for each in SILENCES}
    false_ends = sum(count for count, _ in _false_ends(recordings))
    if false_ends < len(inside):
        # At most `false_ends` pauses are longer, so this rule has no more false ends.
        seconds = inside[false_ends]
        rules[f"silence of {seconds:.2f} s, as safe"] = _silence(recordings, seconds)
    return {
        "pauses inside turns": len(inside),
        "ends of turns": len(pauses) - len(inside),
        "ends without a pause": ends_without_pause,
        "ends by the silence of the session": ends_by_silence,
        "detector": _rule(recordings),
        **rules,
    }


def _silence(recordings: Sequence[Ended], seconds: float) -> dict[str, Any]:
    """Return the figures of the rule that every silence longer than *seconds* ends a turn."""

    def delay(pause: Pause) -> float | None:
        return seconds if pause.seconds > seconds else None

    return _rule([{pause: delay(pause) for pause in recording} for recording in recordings])


def _rule(recordings: Sequence[Ended]) -> dict[str, Any]:
    delays = [delay for recording in recordings for pause, delay in recording.items() if pause.ends]
    return {
        "false ends": pooled_rate(_false_ends(recordings)),
        "missed ends": delays.count(None),
        "delay": Distribution.figures((d for d in delays if d is not None), "p50", "mean"),
    }


def _false_ends(recordings: Sequence[Ended]) -> list[tuple[int, int]]:
    """Return, for each recording, its false ends and its pauses inside turns."""
    counts: list[tuple[int, int]] = []
    for recording in recordings:
        delays = [delay for pause, delay in recording.items() if not pause.ends]
        counts.append((len(delays) - delays.count(None), len(delays)))
    return counts
