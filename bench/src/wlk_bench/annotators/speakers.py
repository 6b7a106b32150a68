"""Diarization error rate, confusion near changes of speaker, and the latency of labels."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from scipy.optimize import linear_sum_assignment

from wlk_bench.metrics.statistics import Distribution, pooled_rate
from wlk_live.session import SpeakerTurn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from wlk_bench.annotators.playing import Played
    from wlk_bench.reference import ReferenceTurn
    from wlk_core.tokens import SpeakerSpan

COLLARS = (0.0, 0.25)  #: seconds around each boundary, half on either side, that do not count
NEAR_SECONDS = 0.5  # on either side of a change of speaker


@attrs.frozen
class DiarizationErrors:
    """Seconds of speech in the reference and of errors, summed over the speakers."""

    total: float
    missed: float
    false_alarm: float
    confusion: float
    confusion_near: float  #: confusion within NEAR_SECONDS of a change of speaker

    @property
    def errors(self) -> float:
        """All errors; divided by `total` they are the DER."""
        return self.missed + self.false_alarm + self.confusion


def diarization_errors(
    turns: Sequence[ReferenceTurn], spans: Sequence[SpeakerSpan], collar: float = 0.0
) -> DiarizationErrors:
    """
    Compare *spans* with the reference, as `DiarizationErrorRate` of pyannote.metrics does.

    Detected and reference speakers are paired one to one, so as to share as much time as possible.
    """
    borders = [time for each in turns for time in (each.start, each.end)]
    changes: list[float] = []  # the end of one speaker's turn and the start of the next one's
    for before, after in pairwise(sorted(turns, key=lambda turn: turn.start)):
        if before.speaker != after.speaker:
            changes += [before.end, after.start]
    left_out = [(time - collar / 2, time + collar / 2) for time in borders]
    near = [(time - NEAR_SECONDS, time + NEAR_SECONDS) for time in changes]
    ends = [time for each in spans for time in (each.start, each.end)]
    edges = np.unique([*borders, *ends, *np.ravel(left_out), *np.ravel(near)])
    times, seconds = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    seconds[_within(times, left_out)] = 0.0
    spoken, labelled = _active(times, turns), _active(times, spans)
    rows, columns = linear_sum_assignment((spoken * seconds) @ labelled.T, maximize=True)
    correct = (spoken[rows] & labelled[columns]).sum(axis=0)
    speakers, labels = spoken.sum(axis=0), labelled.sum(axis=0)
    confused = (np.minimum(speakers, labels) - correct) * seconds
    return DiarizationErrors(
        total=float(speakers @ seconds),
        missed=float(np.maximum(speakers - labels, 0) @ seconds),
        false_alarm=float(np.maximum(labels - speakers, 0) @ seconds),
        confusion=float(confused.sum()),
        confusion_near=float(confused[_within(times, near)].sum()),
    )


def _within(times: NDArray[np.float64], spans: Iterable[tuple[float, float]]) -> NDArray[np.bool_]:
    inside = np.zeros(len(times), dtype=np.bool_)
    for start, end in spans:
        inside[np.searchsorted(times, start) : np.searchsorted(times, end)] = True
    return inside


def _active(
    times: NDArray[np.float64], spans: Iterable[ReferenceTurn | SpeakerSpan]
) -> NDArray[np.bool_]:
    """Return who speaks at *times*, bool[speakers, times]."""
    speakers: dict[int | str, list[tuple[float, float]]] = {}
    for span in spans:
        speakers.setdefault(span.speaker, []).append((span.start, span.end))
    active = [_within(times, each) for each in speakers.values()]
    return np.array(active, dtype=np.bool_).reshape(len(active), len(times))


def figures(played: Played) -> dict[str, Any]:
    """Return the figures of a diarizer: rates are fractions, delays are seconds of audio."""
    errors: dict[float, list[DiarizationErrors]] = {collar: [] for collar in COLLARS}
    delays: list[float] = []
    complete = 0
    for sample, events in played:
        labels = [each.event for each in events if isinstance(each.event, SpeakerTurn)]
        spans = [label.span for label in labels]
        delays += [label.audio_time - label.span.end for label in labels]
        for collar, scored in errors.items():
            scored.append(diarization_errors(sample.turns, spans, collar))
        if len({turn.speaker for turn in sample.turns}) == len({span.speaker for span in spans}):
            complete += 1
    return {
        "with the true number of speakers": complete,
        **{f"DER, collar of {collar:g} s": _pooled(scored) for collar, scored in errors.items()},
        "delay of a label after its speech": Distribution.figures(delays, "p50", "p95", "max"),
    }


def _pooled(errors: Sequence[DiarizationErrors]) -> dict[str, float | None]:
    def rate(part: str, whole: str) -> float | None:
        total = sum(getattr(each, whole) for each in errors)
        return sum(getattr(each, part) for each in errors) / total if total else None

    return {
        **pooled_rate([(each.errors, each.total) for each in errors]),
        **{name: rate(name, "total") for name in ("missed", "false_alarm", "confusion")},
        "of it near changes": rate("confusion_near", "confusion"),
    }
