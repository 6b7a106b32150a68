"""Find the sessions that a backend keeps in real time, and compare each run with its prediction."""

from __future__ import annotations

from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING

import attrs

from wlk_bench.capacity.prediction import Prediction, predict, predict_sessions
from wlk_bench.errors import CapacityError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wlk_bench.capacity.measurement import Bench
    from wlk_bench.capacity.paced_run import PacedRun
    from wlk_bench.capacity.service_times import ServiceTimes

__all__ = ["DEARER", "RUNS_BELOW", "Capacity", "CheckedRun", "search"]

_RESOLUTION = 0.05  # of the sessions, at which the search ends
DEARER = 1.05  #: a drift of costs between two measurements that is usual on a machine of one's own
_SHARES_BELOW = (0.6, 0.8)  # of the sessions that were kept, for two runs that compare alone
RUNS_BELOW = len(_SHARES_BELOW)  #: runs that compare alone, after the search
_STEPS = (0.1, 0.2, 0.4, 0.6, 0.8)  # of the sessions, as long as all runs are on one side


@attrs.frozen(kw_only=True)
class CheckedRun:
    """
    A run in real time and its prediction, from costs that were measured right before and after.

    On a machine that is shared, costs change from minute to minute; `cost_ratio` is that of the
    costs after the run to those before.  `from_own_costs` predicts the delays from what the chunks
    of the run itself cost, so that the order and the waiting alone are predicted; None with
    batching.
    """

    measured: PacedRun
    predicted: Prediction
    from_own_costs: Prediction | None
    cost_ratio: float
    sensitivity: float

    @property
    def ratio(self) -> float:
        """The predicted 99th percentile of the delay to the measured one."""
        return self.predicted.p99_delay / self.measured.p99_delay

    @property
    def own_ratio(self) -> float | None:
        """The same of the prediction from the costs of the run itself."""
        if self.from_own_costs is None:
            return None
        return self.from_own_costs.p99_delay / self.measured.p99_delay


@attrs.frozen(kw_only=True)
class Capacity:
    """
    What was found.

    Attributes:
        sessions: the most that kept the lateness in a run.
        lost: the fewest that did not; None where the search ended before.
        predicted_sessions: from the costs alone, of all measurements on average.
        p99_lateness: the bound, in seconds.
        service: the costs of all measurements.
        runs: in their order.

    """

    sessions: int
    lost: int | None
    predicted_sessions: int
    p99_lateness: float
    service: ServiceTimes
    runs: tuple[CheckedRun, ...]

    @property
    def run(self) -> CheckedRun:
        """The run with the sessions that were kept."""
        kept = [run for run in self.runs if run.measured.sessions == self.sessions]
        return kept[-1]


def search(
    bench: Bench,
    *,
    p99_lateness: float,
    seconds: float,
    max_runs: int,
    observe: Callable[[CheckedRun], object] = lambda _run: None,
) -> Capacity:
    """
    Return the most sessions of which 99 in 100 chunks are at most *p99_lateness* late.

    The first run has the predicted sessions; the next ones have more or fewer until the bracket is
    narrow, or *max_runs* were made.  Two more runs have fewer sessions than were kept: near the
    capacity a small change of costs changes delays by far, so predictions are compared below too.

    Raises:
        CapacityError: one session does not keep the lateness.

    """
    few = bench.service_times(seconds)
    guess = max(1, predict_sessions(few, p99_lateness=p99_lateness, seconds=seconds))
    before = pooled = bench.service_times(seconds, streams=guess)
    guess = max(1, predict_sessions(before, p99_lateness=p99_lateness, seconds=seconds))
    measurements, runs = [before], list[CheckedRun]()
    counts = chain(_counts(guess, runs, p99_lateness, max_runs), _below(runs, p99_lateness))
    for sessions in counts:
        measured = bench.paced_run(sessions, seconds)
        after = bench.service_times(seconds, streams=sessions)
        around = before.alternated(after)
        predicted = predict(around, sessions, seconds=seconds)
        dearer = predict(around.scaled(DEARER), sessions, seconds=seconds)
        runs.append(
            CheckedRun(
                measured=measured,
                predicted=predicted,
                from_own_costs=None
                if measured.service is None
                else predict(measured.service, sessions, seconds=seconds, has_begun=False),
                cost_ratio=after.mean / before.mean,
                sensitivity=dearer.p99_delay / predicted.p99_delay,
            )
        )
        pooled, before = pooled.merged(after), after
        measurements.append(after)
        observe(runs[-1])
    kept, lost = _bracket(runs, p99_lateness)
    if not kept:
        measured = min((run.measured for run in runs), key=lambda run: run.sessions)
        plural = "s" if measured.sessions > 1 else ""
        raise CapacityError(
            f"expected a session that keeps a p99 lateness of {p99_lateness:g} s, got "
            f"{measured.p99_lateness:.2f} s with {measured.sessions} session{plural}; "
            "take a larger --tick or --p99, more --runs, or a smaller model"
        )
    return Capacity(
        sessions=kept,
        lost=lost,
        predicted_sessions=round(
            fmean(
                predict_sessions(each, p99_lateness=p99_lateness, seconds=seconds)
                for each in measurements
            )
        ),
        p99_lateness=p99_lateness,
        service=pooled,
        runs=tuple(runs),
    )


def _bracket(runs: list[CheckedRun], p99_lateness: float) -> tuple[int, int | None]:
    """Return the most sessions that were kept, and the fewest above them that were not."""
    measured = [run.measured for run in runs]
    kept = max((run.sessions for run in measured if run.p99_lateness <= p99_lateness), default=0)
    lost = [run.sessions for run in measured if run.sessions > kept]
    return kept, min(lost, default=None)


def _below(runs: list[CheckedRun], p99_lateness: float) -> Iterator[int]:
    """Yield sessions below those that were kept, which no run had."""
    kept = _bracket(runs, p99_lateness)[0]
    for share in _SHARES_BELOW:
        sessions = round(share * kept)
        if sessions and all(run.measured.sessions != sessions for run in runs):
            yield sessions


def _counts(
    first: int, runs: list[CheckedRun], p99_lateness: float, max_runs: int
) -> Iterator[int]:
    """Yield how many sessions the next run has, from the runs so far."""
    sessions = first
    for number in range(max_runs):
        yield 1 if number == max_runs - 1 and not _bracket(runs, p99_lateness)[0] else sessions
        kept, lost = _bracket(runs, p99_lateness)
        step = _STEPS[min(number, len(_STEPS) - 1)]
        if not kept and lost == 1:
            return
        if lost is None:
            sessions = max(kept + 1, round(kept * (1 + step)))
        elif not kept:
            sessions = max(1, min(lost - 1, round(lost * (1 - step))))
        elif lost - kept <= max(1, _RESOLUTION * kept):
            return
        else:
            sessions = (kept + lost) // 2
