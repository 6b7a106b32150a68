from __future__ import annotations

from functools import partial
import json

import attrs
import numpy as np
import pytest

from wlk_bench.capacity import prediction
from wlk_bench.capacity.measurement import Bench
from wlk_bench.capacity.paced_run import PacedRun
from wlk_bench.capacity.prediction import predict
from wlk_bench.capacity.report import build_report, read_report
from wlk_bench.capacity.search import search
from wlk_bench.capacity.service_times import ServiceTimes
from wlk_bench.capacity.timed_session import TimedSession
from wlk_bench.cli import run_command
from wlk_bench.errors import CapacityError
from wlk_conformance import EngineFaults
from wlk_conformance.scripted import ScriptedBackend
from wlk_core import BackendError

from .conftest import coded_manifest, coded_sample


class FakeBench:
    """A machine that keeps a number of sessions, whatever its costs predict."""

    def __init__(self, keeps, *, cost=0.02):
        self.keeps = keeps
        self.service = ServiceTimes.constant(cost)
        self.counts = []
        self.streams = []

    def service_times(self, _seconds, *, streams=0):
        """Return the costs."""
        self.streams.append(streams)
        return self.service

    def paced_run(self, sessions, _seconds):
        """Return a run that is late beyond the capacity."""
        self.counts.append(sessions)
        late = 0.0 if sessions <= self.keeps else 1.0
        return PacedRun(
            sessions=sessions,
            p99_delay=0.5 + late,
            p99_lateness=late,
            utilisation=0.5,
            other_cores=None,
            session_bytes=1e6,
        )


def found(bench, *, max_runs=8):
    """Search with the usual bound."""
    return search(bench, p99_lateness=0.05, seconds=20, max_runs=max_runs)


@pytest.fixture
def bench():
    """Return the scripted backend on one worker whose clock is the processor time."""
    audio = np.concatenate(list(coded_sample("sample").audio()))
    return Bench(
        backend=ScriptedBackend(),
        stream_arguments={"tick_seconds": 0.5},
        clips=[audio],
        chunk_seconds=0.5,
        tick_seconds=0.5,
        workers=1,
        is_batching=False,
        cores=1,
        is_cpu_clock=True,
    )


@pytest.mark.parametrize("keeps", [1, 7, 20, 25, 31, 60])
def test_the_search_finds_the_sessions_that_are_kept(keeps):
    """The first run has the predicted 25 sessions; the bracket is narrow at the end."""
    machine = FakeBench(keeps)
    capacity = found(machine, max_runs=12)

    assert 25 == capacity.predicted_sessions == machine.counts[0]
    assert capacity.sessions <= keeps < capacity.lost
    assert capacity.lost - capacity.sessions <= max(1, 0.05 * keeps)
    assert len(machine.counts) == len(set(machine.counts))


def test_a_delay_near_the_capacity_depends_on_costs_far_more_than_one_below():
    """A twentieth more work delays chunks by a twentieth, and without end where none is left."""
    runs = {run.measured.sessions: run for run in found(FakeBench(25)).runs}

    assert 1.05 == pytest.approx(runs[15].sensitivity)
    assert runs[25].sensitivity > 5


def test_the_costs_of_a_run_are_those_of_all_of_its_sessions():
    """Fewer streams would leave out what the others decode; the first run is a guess."""
    machine = FakeBench(20)
    found(machine)

    assert [0, 25, *machine.counts] == machine.streams


@pytest.mark.parametrize("max_runs", [1, 2, 5])
def test_the_search_makes_no_more_runs_than_are_allowed(max_runs):
    """A machine that keeps far more than was predicted is not fully measured then."""
    machine = FakeBench(1000)
    capacity = found(machine, max_runs=max_runs)
    below = machine.counts[max_runs:]

    assert capacity.lost is None
    assert capacity.sessions == max(machine.counts[:max_runs])
    assert all(sessions < capacity.sessions for sessions in below)
    assert len(below) <= 2


@pytest.mark.parametrize("max_runs", [1, 3, 9])
def test_a_backend_that_keeps_no_session_is_one_line(max_runs):
    """The last run has one session, so that the message is about one."""
    with pytest.raises(CapacityError, match=r"got 1\.00 s with 1 session; take a larger --tick"):
        found(FakeBench(0), max_runs=max_runs)


def test_a_chunk_is_done_when_its_steps_are_not_when_the_next_one_is():
    """A chunk that arrives while another is decoded does not make that one late."""
    done = []
    session = TimedSession(
        ScriptedBackend().create_processor(tick_seconds=0.5),
        0.5,
        lambda arrivals, _seconds: done.append(arrivals),
    )
    chunk = np.zeros(8000, dtype=np.float32)
    for arrival in (1.0, 2.0, 3.0):
        session.arrive(chunk, arrival)
    while session.has_work:
        session.step()

    assert [[1.0], [2.0], [3.0]] == done
    assert () == session.waiting


@pytest.mark.parametrize("is_cpu_clock", [True, False])
@pytest.mark.parametrize("work", ["service_times", "paced_run"])
@pytest.mark.parametrize("call", [1, 10])
def test_an_engine_that_fails_for_good_ends_a_measurement(bench, is_cpu_clock, work, call):
    """The error is that of the engine; no chunk is awaited for ever."""
    bench = attrs.evolve(bench, is_cpu_clock=is_cpu_clock)
    EngineFaults.of(bench.backend.engine_calls).fail_before = frozenset(range(call, 1000))
    measure = partial(bench.paced_run, 3) if work == "paced_run" else bench.service_times

    with pytest.raises(BackendError, match="engine call"):
        measure(2.0)


@pytest.mark.parametrize("is_cpu_clock", [True, False])
@pytest.mark.slow
def test_sessions_that_a_machine_keeps_are_measured(bench, is_cpu_clock):
    """Every chunk has a cost: those before a run, and those of the run by themselves."""
    bench = attrs.evolve(bench, is_cpu_clock=is_cpu_clock)
    service = bench.service_times(2.0)
    run = bench.paced_run(3, 2.0)

    assert {1} == set(service.by_streams)
    assert all(len(trace) == 8 for trace in service.by_streams[1])
    assert min(map(min, service.by_streams[1])) > 0
    assert run.p99_delay > 0
    assert run.p99_lateness == run.p99_delay - 0.5
    assert 0 < run.utilisation <= 1
    assert [4, 4, 4] == [len(trace) for trace in run.service.by_streams[1]]


@pytest.mark.slow
def test_streams_that_are_due_together_are_measured_by_their_number(bench):
    """Two workers: one stream alone, and more than enough to keep both busy."""
    service = attrs.evolve(bench, is_cpu_clock=False, workers=2).service_times(2.0)

    assert {1, 2} == set(service.by_streams)
    assert (1, 8) == tuple(len(service.by_streams[streams]) for streams in (1, 2))


@pytest.mark.slow
@pytest.mark.parametrize(("streams", "traces"), [(3, 8), (9, 9), (40, 10)])
def test_every_stream_is_measured_up_to_the_number_of_clips(bench, streams, traces):
    """A stream that repeats the clip of another one costs what that one does."""
    bench = attrs.evolve(bench, clips=10 * bench.clips)
    service = bench.service_times(1.0, streams=streams)

    assert traces == len(service.by_streams[1])


@pytest.mark.slow
def test_a_batching_engine_is_measured_by_the_turns_of_its_streams(bench):
    """One turn for each chunk of twice the seconds, for one, two and four streams."""
    bench = attrs.evolve(bench, is_cpu_clock=False, is_batching=True, workers=4)
    service = bench.service_times(2.0)

    assert {1, 2, 4} == set(service.by_streams)
    assert [8, 8, 8] == [len(traces[0]) for traces in service.by_streams.values()]


@pytest.fixture
def report(tmp_path):
    """Return the path of a report of a machine that keeps 20 sessions."""
    document = build_report(
        found(FakeBench(20)),
        setup={"backend": "scripted", "model": "digits", "chunk_seconds": 0.5},
        versions={},
        cores=2,
        gpus=1,
    )
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_a_report_has_the_figures_and_survives_a_file(report):
    """What is read is what was written; sessions are counted for each core and GPU."""
    document = read_report(report)

    assert (20, 10.0, 20.0) == tuple(
        document[name] for name in ("sessions", "sessions_per_core", "sessions_per_gpu")
    )
    assert [0.02] * 4 == [document["costs"][0][name] for name in ("mean", "p50", "p95", "p99")]
    assert document["service"] == found(FakeBench(20)).service
    predicted = predict(document["service"], 20, seconds=20).p99_delay
    run = next(run for run in document["runs"] if run["measured"]["sessions"] == 20)
    assert run["ratio"] == pytest.approx(predicted / 0.5)


def test_a_cluster_is_predicted_from_a_report(report, tmp_path, capsys):
    """Replicas, costs and the cluster over time, without a measurement."""
    output = tmp_path / "plan.json"
    status = run_command(
        [
            *("capacity", "scripted", "--measured", str(report), "--load", "140"),
            *("--minutes", "2", "--price-per-hour", "0.5", "--output", str(output)),
        ]
    )

    printed = capsys.readouterr().out
    assert 0 == status
    assert "10, each of up to 20 sessions" in printed
    assert "replica hours" in printed
    planned = json.loads(output.read_text(encoding="utf-8"))["plan"]
    assert planned["cost"] == pytest.approx(planned["replica_hours"] * 0.5)
    assert 1 == planned["failed_replicas"]


def test_arrivals_and_a_length_are_a_load(report, capsys):
    """840 sessions an hour of ten minutes are 140 at a time."""
    arguments = ["--arrivals-per-hour", "840", "--mean-minutes", "10", "--minutes", "1"]
    status = run_command(["capacity", "scripted", "--measured", str(report), *arguments])

    assert 0 == status
    assert "140 sessions of 10 min" in capsys.readouterr().out


@pytest.mark.parametrize(("others", "is_quiet"), [(0.0, True), (0.05, True), (1.7, False)])
@pytest.mark.usefixtures("scripted")
def test_a_machine_that_others_use_is_reported(others, is_quiet, tmp_path, capsys, monkeypatch):
    """Their work is part of the figures, so the command is to be repeated."""
    machine = FakeBench(20)
    run = machine.paced_run(1, 20)
    run = attrs.evolve(run, other_cores=others)
    monkeypatch.setattr(Bench, "service_times", lambda _bench, _seconds, **_: machine.service)
    monkeypatch.setattr(
        Bench, "paced_run", lambda _bench, sessions, _seconds: attrs.evolve(run, sessions=sessions)
    )
    data = f"manifest:{coded_manifest(tmp_path)}"
    status = run_command(["capacity", "scripted", "--data", data, "--cores", "1", "--runs", "1"])

    assert 0 == status
    assert is_quiet != ("other processes used up to 1.7 cores" in capsys.readouterr().err)


@pytest.mark.slow
@pytest.mark.usefixtures("scripted")
def test_the_command_measures_and_checks_itself(tmp_path, capsys, monkeypatch):
    """The duration is stated before, each run as it ends, the tables at last."""
    monkeypatch.setattr(prediction, "MOST_SESSIONS", 4)
    data, output = f"manifest:{coded_manifest(tmp_path)}", tmp_path / "out.json"
    status = run_command(
        [
            *("capacity", "scripted", "--data", data, "--clock", "cpu", "--seconds", "1"),
            *("--runs", "2", "--p99", "20", "--output", str(output)),
        ]
    )

    printed = capsys.readouterr()
    assert 0 == status
    assert printed.err.startswith("at most 4 runs of 1 s")
    assert "4 sessions: p99" in printed.err
    assert "sessions per core" in printed.out
    assert "p99 measured" in printed.out
    assert "cpu" == read_report(output)["setup"]["clock"]
    assert read_report(output)["setup"]["stream_options"]["tick_seconds"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--load", "0"], 2, "expected a number above 0, got 0"),
        (["--load", "nan"], 2, "expected a number above 0, got nan"),
        (["--load", "5", "--price-per-hour", "-1"], 2, "expected 0 or more, got -1"),
        (["--price-per-hour", "1"], 2, "expected --load N beside --price-per-hour"),
        (["--load", "5", "--arrivals-per-hour", "5"], 2, "got both"),
        (["--tick", "0"], 2, "expected a number above 0, got 0"),
        (["--cores", "100000"], 1, "expected --cores of at most"),
        (["--data", "music"], 1, "expected --data digits"),
        (["--option", "colour=red"], 1, "colour"),
    ],
)
@pytest.mark.usefixtures("scripted")
def test_an_argument_that_does_not_fit_is_one_line(arguments, status, message, capsys):
    """Nothing is measured before."""
    assert status == run_command(["capacity", "scripted", *arguments])

    printed = capsys.readouterr()
    assert message in printed.err
    assert "" == printed.out


def test_an_unknown_backend_is_one_line(capsys):
    """The line names what is installed."""
    assert 1 == run_command(["capacity", "no-such-backend"])

    error = capsys.readouterr().err
    assert "no-such-backend" in error
    assert 1 == error.count("\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "wlk-bench-result/1"}, "got 'wlk-bench-result/1'"),
        ({"sessions": 0}, "expected 1 session or more"),
        ({"service": None}, "expected service times that wlk-bench capacity wrote"),
        ({"setup": {"backend": "other"}}, "got one of other"),
    ],
)
def test_a_report_that_cannot_be_used_is_one_line(report, change, message, capsys):
    """The line has the file or the field."""
    document = json.loads(report.read_text(encoding="utf-8"))
    report.write_text(json.dumps({**document, **change}), encoding="utf-8")

    assert 1 == run_command(["capacity", "scripted", "--measured", str(report)])

    error = capsys.readouterr().err
    assert message in error
    assert 1 == error.count("\n")
