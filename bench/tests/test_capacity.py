from __future__ import annotations

from functools import partial
import json

import attrs
import numpy as np
import pytest

from wlk_bench.capacity import search as search_module
from wlk_bench.capacity.measurement import Bench, PacedRun
from wlk_bench.capacity.search import search
from wlk_bench.capacity.timed_session import TimedSession
from wlk_bench.errors import CapacityError
from wlk_conformance import EngineFaults
from wlk_conformance.scripted import ScriptedBackend
from wlk_core import BackendError

from .conftest import coded_manifest, coded_sample, run_command


def run_of(sessions, late, *, others=None):
    """Return a run whose p99 lateness is *late* seconds."""
    return PacedRun(
        sessions=sessions, p99_delay=0.5 + late, p99_lateness=late, utilisation=0.5,
        other_cores=others, session_bytes=1e6,
    )  # fmt: skip


class FakeBench:
    """A machine that sustains a number of sessions and decodes 28 s of audio per second."""

    def __init__(self, keeps):
        self.keeps = keeps
        self.counts = []

    def throughput(self, _seconds):
        """Return the seconds of audio decoded per second."""
        return 28.0

    def paced_run(self, sessions, _seconds):
        """Return a run, which is late if it has more sessions than the machine sustains."""
        self.counts.append(sessions)
        return run_of(sessions, 0.0 if sessions <= self.keeps else 1.0)


def found(bench, *, max_runs=8):
    """Search with the default limit of lateness."""
    return search(bench, p99_lateness=0.05, seconds=20, max_runs=max_runs)


@pytest.fixture
def bench():
    """Return the scripted backend on one worker, timed by processor time."""
    audio = np.concatenate(list(coded_sample("sample").audio()))
    return Bench(
        backend=ScriptedBackend(),
        stream_arguments={"tick_seconds": 0.5},
        clips=[audio],
        tick_seconds=0.5,
        workers=1,
        cores=1,
        is_cpu_clock=True,
    )


@pytest.mark.parametrize("keeps", [1, 7, 20, 25, 31, 60])
def test_the_search_finds_the_sessions_that_are_kept(keeps):
    """The first run has nine tenths of the throughput, and the final bracket is narrow."""
    machine = FakeBench(keeps)
    capacity = found(machine, max_runs=12)

    assert machine.counts[0] == 25
    assert capacity.sessions <= keeps < capacity.fewest_late
    assert capacity.fewest_late - capacity.sessions <= max(1, 0.05 * keeps)
    assert capacity.sessions == capacity.best.sessions
    assert len(machine.counts) == len(set(machine.counts))


@pytest.mark.parametrize("max_runs", [1, 2, 5, 9])
def test_the_search_makes_no_more_runs_than_are_allowed(max_runs):
    """The search then ends before it has found the limit of a machine that sustains far more."""
    machine = FakeBench(1000)
    capacity = found(machine, max_runs=max_runs)

    assert capacity.fewest_late is None
    assert capacity.sessions == max(machine.counts)
    assert len(machine.counts) == max_runs
    # The last run has one session, so that the message is about a single session.
    with pytest.raises(CapacityError, match=r"got 1\.00 s with 1 session; choose a larger --tick"):
        found(FakeBench(0), max_runs=max_runs)


def test_a_chunk_is_done_when_its_steps_are_not_when_the_next_one_is():
    """A chunk that arrives while another is decoded does not make that one late."""
    done = []
    session = TimedSession(ScriptedBackend().create_processor(tick_seconds=0.5), 0.5, done.append)
    chunk = np.zeros(8000, dtype=np.float32)
    for arrival in (1.0, 2.0, 3.0):
        session.arrive(chunk, arrival)
    while session.has_work:
        session.step()

    assert done == [[1.0], [2.0], [3.0]]
    assert session.waiting == ()


@pytest.mark.parametrize("is_cpu_clock", [True, False])
@pytest.mark.parametrize("work", ["throughput", "paced_run"])
@pytest.mark.parametrize("call", [1, 10])
def test_an_engine_that_fails_for_good_ends_a_measurement(bench, is_cpu_clock, work, call):
    """The error is the engine's, and nothing waits forever for a chunk."""
    bench = attrs.evolve(bench, is_cpu_clock=is_cpu_clock)
    EngineFaults.of(bench.backend.engine_calls).fail_before = frozenset(range(call, 1000))
    measure = partial(bench.paced_run, 3) if work == "paced_run" else bench.throughput

    with pytest.raises(BackendError, match="engine call"):
        measure(2.0)


@pytest.mark.parametrize("is_cpu_clock", [True, False])
@pytest.mark.slow
def test_sessions_that_a_machine_keeps_are_measured(bench, is_cpu_clock):
    """The scripted engine decodes far faster than real time, so three sessions are in time."""
    bench = attrs.evolve(bench, is_cpu_clock=is_cpu_clock)
    run = bench.paced_run(3, 2.0)

    assert bench.throughput(2.0) > 3
    assert 0 < run.p99_delay < 0.5
    assert run.p99_lateness == run.p99_delay - 0.5
    assert 0 < run.utilisation <= 1


@pytest.mark.parametrize(("others", "is_quiet"), [(0.0, True), (0.05, True), (1.7, False)])
@pytest.mark.usefixtures("scripted")
def test_a_machine_that_others_use_is_reported(others, is_quiet, tmp_path, capsys, monkeypatch):
    """Their load affects the figures, so the command should be repeated."""
    monkeypatch.setattr(Bench, "throughput", lambda _bench, _seconds: 20.0)
    monkeypatch.setattr(
        Bench, "paced_run", lambda _bench, count, _seconds: run_of(count, 0.0, others=others)
    )
    data = f"manifest:{coded_manifest(tmp_path)}"
    status = run_command(["capacity", "scripted", "--data", data, "--cores", "1", "--runs", "1"])

    assert status == 0
    assert ("other processes used up to 1.7 cores" in capsys.readouterr().err) != is_quiet


@pytest.mark.slow
@pytest.mark.usefixtures("scripted")
def test_the_command_measures_and_reports(tmp_path, capsys, monkeypatch):
    """The expected duration is printed first, then each run as it ends, and finally the tables."""
    monkeypatch.setattr(search_module, "MAX_SESSIONS", 4)
    data, output = f"manifest:{coded_manifest(tmp_path)}", tmp_path / "out.json"
    status = run_command(
        [
            *("capacity", "scripted", "--data", data, "--clock", "cpu", "--seconds", "1"),
            *("--runs", "2", "--p99", "20", "--gpus", "2", "--output", str(output)),
        ]
    )

    printed = capsys.readouterr()
    report = json.loads(output.read_text(encoding="utf-8"))
    assert status == 0
    assert printed.err.startswith("up to 2 runs of 1 s")
    assert "4 sessions: p99" in printed.err
    assert "sessions per core" in printed.out
    assert "from deadline" in printed.out
    assert report["schema"] == "wlk-bench-capacity/2"
    assert report["setup"]["clock"] == "cpu"
    assert report["setup"]["stream_options"]["tick_seconds"] == 0.5
    assert report["sessions"] == report["sessions_per_core"] == 2 * report["sessions_per_gpu"]
    assert [run["sessions"] for run in report["runs"]] == [4, 5]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--tick", "0"], 2, "0.0 is not in the range x>0"),
        (["--tick", "nan"], 2, "nan is not a finite number"),
        (["--p99", "-1"], 2, "-1.0 is not in the range x>=0"),
        (["--cores", "100000"], 1, "expected --cores of at most"),
        (["--data", "music"], 1, "expected --data digits"),
        (["--option", "colour=red"], 2, "colour"),
    ],
)
@pytest.mark.usefixtures("scripted")
def test_an_argument_that_does_not_fit_is_one_line(arguments, status, message, capsys):
    """It is refused before anything is measured."""
    assert run_command(["capacity", "scripted", *arguments]) == status

    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""
