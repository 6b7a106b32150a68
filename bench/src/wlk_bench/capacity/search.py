"""Find how many sessions a backend can sustain in real time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_bench.errors import CapacityError

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_bench.capacity.measurement import Bench, PacedRun

MAX_SESSIONS = 20_000  #: in the first run; a backend that sustains more does no work
# Delays grow without bound as utilisation approaches 100 %: with the digits model of
# faster-whisper on one core the p99 delay was 37 ms at a utilisation of 59 %, 178 ms at 95 % and
# 561 ms at 96 %.
_FIRST_UTILISATION = 0.9
_RESOLUTION = 0.05  # the search stops when the bracket is narrower than 5 % of the sessions
_STEPS = (0.1, 0.2, 0.4, 0.6, 0.8)  # relative, while all runs are on one side of the limit


@attrs.frozen(kw_only=True)
class Capacity:
    """
    The result of a search.

    Attributes:
        sessions: the most that met the lateness limit in a run.
        fewest_late: the fewest above `sessions` that did not; None if the search never found any.
        throughput: seconds of audio decoded in a second while all workers are busy.
        runs: every run, in order.

    """

    sessions: int
    fewest_late: int | None
    throughput: float
    runs: tuple[PacedRun, ...]

    @property
    def best(self) -> PacedRun:
        """The run with the most sessions that met the lateness limit."""
        return next(run for run in self.runs if run.sessions == self.sessions)


def search(
    bench: Bench,
    *,
    p99_lateness: float,
    seconds: float,
    max_runs: int,
    observe: Callable[[PacedRun], object] = lambda _run: None,
) -> Capacity:
    """
    Find the most sessions whose p99 lateness is at most *p99_lateness* seconds.

    The first run has as many as the throughput suggests; the next ones have more or fewer until the
    bracket is narrow, or *max_runs* were made.

    Raises:
        CapacityError: a single session exceeds it.

    """
    throughput = bench.throughput(seconds)
    sessions = min(MAX_SESSIONS, max(1, int(_FIRST_UTILISATION * throughput)))
    runs: list[PacedRun] = []
    most, late = 0, None
    for number in range(max_runs):
        if number == max_runs - 1 and not most:
            sessions = 1  # so that the error is about a single session
        runs.append(bench.paced_run(sessions, seconds))
        observe(runs[-1])
        most = max((run.sessions for run in runs if run.p99_lateness <= p99_lateness), default=0)
        late = min((run.sessions for run in runs if run.sessions > most), default=None)
        step = _STEPS[min(number, len(_STEPS) - 1)]
        if late is None:
            sessions = max(most + 1, round(most * (1 + step)))
        elif not most:
            sessions = max(1, min(late - 1, round(late * (1 - step))))
        else:
            sessions = (most + late) // 2
        if late is not None and late - most <= max(1, _RESOLUTION * most):
            break
    if not most:
        raise CapacityError(
            f"expected a p99 lateness of at most {p99_lateness:g} s, got "
            f"{runs[-1].p99_lateness:.2f} s with 1 session; "
            "choose a larger --tick or --p99, or a smaller model"
        )
    return Capacity(sessions=most, fewest_late=late, throughput=throughput, runs=tuple(runs))
