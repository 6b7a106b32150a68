from __future__ import annotations

import threading
from time import monotonic

import pytest

from wlk_conformance import watchdog
from wlk_conformance.watchdog import Hung, Worker


def test_what_a_job_raises_is_raised():
    """The caller sees the exception of the job, with its traceback."""

    def job():
        raise KeyError("here")

    worker = Worker()
    with pytest.raises(KeyError, match="here"):
        worker.run(job, limit=5.0)
    worker.close()


def test_jobs_share_one_thread():
    """A backend is loaded and used by the same thread."""
    seen = []
    worker = Worker()
    for _ in range(3):
        worker.run(lambda: seen.append(threading.current_thread()), limit=5.0)
    worker.close()

    assert 1 == len(set(seen))
    assert threading.current_thread() not in seen


def test_a_job_that_hangs_is_abandoned():
    """A job that does not return is abandoned, and the message is its stack."""
    never = threading.Event()
    worker = Worker()
    began = monotonic()
    with pytest.raises(Hung, match="never_returns"):
        worker.run(lambda: never_returns(never), limit=0.1)
    never.set()

    assert monotonic() - began < 5.0


def never_returns(event):
    """Wait longer than the limit of the test."""
    event.wait(30.0)


def test_a_job_that_is_touched_has_more_time():
    """The limit counts from the last call that returned, not from the start of the job."""
    worker = Worker()
    never = threading.Event()
    touched = []

    def job():
        for index in range(4):
            never.wait(0.05)
            worker.touch()
            touched.append(index)

    worker.run(job, limit=0.15)
    worker.close()

    assert [0, 1, 2, 3] == touched


def test_time_spent_waiting_for_a_processor_does_not_count(monkeypatch):
    """On a loaded machine a call that works has as much time as it would have alone."""
    delays = iter(range(1000))
    monkeypatch.setattr(watchdog, "_processor_delays", lambda: {"1": float(next(delays))})
    never = threading.Event()
    worker = Worker()
    worker.run(lambda: never.wait(0.5), limit=0.1)
    worker.close()

    assert next(delays) > 2


def test_the_delays_of_threads_are_read_where_the_kernel_counts_them(tmp_path, monkeypatch):
    """The second number of schedstat is nanoseconds; a thread that has ended is left out."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "schedstat").write_text("5000000000 2500000000 12\n")
    (tmp_path / "8").mkdir()
    monkeypatch.setattr(watchdog, "THREADS", tmp_path)

    assert {"7": 2.5} == watchdog._processor_delays()
    monkeypatch.setattr(watchdog, "THREADS", tmp_path / "absent")
    assert {} == watchdog._processor_delays()
