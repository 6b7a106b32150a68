"""What one replica does with a number of sessions, predicted from the costs of their chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_bench.capacity.step_queue import StepQueue

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wlk_bench.capacity.service_times import ServiceTimes

__all__ = ["MOST_SESSIONS", "Prediction", "first_chunks", "predict", "predict_sessions"]

MOST_SESSIONS = 20_000  #: of one replica; a backend that keeps more does no work

_GOLDEN_RATIO = (5**0.5 - 1) / 2


@attrs.frozen(kw_only=True)
class Prediction:
    """
    Sessions of one replica in real time.

    Attributes:
        sessions: how many run.
        p99_delay: seconds from the arrival of a chunk until it is done, of 99 in 100 chunks.
        p99_lateness: the same from the deadline of the chunk; negative where it is done before.
        utilisation: share of the time in which the workers are busy.

    """

    sessions: int
    p99_delay: float
    p99_lateness: float
    utilisation: float


def first_chunks(sessions: int, rounds: int) -> NDArray[np.int64]:
    """
    Return how many chunks each session has sent before a run of *rounds* chunks begins.

    Streams that began at the same time would cost most at the same time, because the audio that is
    decoded again grows until words are committed.  Multiples of the golden ratio spread any number
    of them evenly.
    """
    spread = np.arange(sessions) * _GOLDEN_RATIO % 1.0
    return np.asarray(spread * rounds, dtype=np.int64)


def predict(
    service: ServiceTimes, sessions: int, *, seconds: float, has_begun: bool = True
) -> Prediction:
    """
    Return what *sessions* bring that send a chunk each `chunk_seconds`, for that many *seconds*.

    Their chunks are spread evenly over `chunk_seconds`, as in the measured runs.  The streams have
    begun before at different times, see `first_chunks`; without *has_begun* each begins now.
    """
    chunk = service.chunk_seconds
    numbers = np.arange(max(1, round(seconds / chunk)))
    streams = np.repeat(np.arange(sessions), len(numbers))
    chunks = np.tile(numbers, sessions)
    arrivals = (chunks + 1 + streams / sessions) * chunk
    queue = StepQueue(service)
    begun = first_chunks(sessions, len(numbers) if has_begun else 0)
    costs = service.costs(streams, chunks + begun[streams])
    queue.add(arrivals, arrivals + service.tick_seconds, costs)
    delays, _ = queue.advance()
    p99 = float(np.percentile(delays, 99))
    servers = 1 if service.is_batching else service.workers
    return Prediction(
        sessions=sessions,
        p99_delay=p99,
        p99_lateness=p99 - service.tick_seconds,
        utilisation=min(1.0, queue.busy_seconds / (servers * len(numbers) * chunk)),
    )


def predict_sessions(service: ServiceTimes, *, p99_lateness: float, seconds: float) -> int:
    """Return the most sessions, up to MOST_SESSIONS, that keep the lateness; 0 where none does."""

    def is_kept(sessions: int) -> bool:
        prediction = predict(service, sessions, seconds=seconds)
        return prediction.p99_lateness <= p99_lateness

    if not is_kept(1):
        return 0
    kept, lost = 1, 2
    while lost <= MOST_SESSIONS and is_kept(lost):
        kept, lost = lost, 2 * lost
    lost = min(lost, MOST_SESSIONS + 1)
    while lost - kept > 1:
        middle = (kept + lost) // 2
        kept, lost = (middle, lost) if is_kept(middle) else (kept, middle)
    return kept
