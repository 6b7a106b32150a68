from __future__ import annotations

from collections import Counter
import json
import os
import re
import signal
import subprocess
import sys
import threading
from time import monotonic

import psutil
import pytest

from wlk_conformance.rules import rule_tests
from wlk_conformance.scripted.plugin import SCRIPTED_SPEC
from wlk_conformance.suite import BackendConformance

RULES = list(dict.fromkeys(declared.id for declared, _ in rule_tests(BackendConformance)))


@pytest.mark.slow
def test_the_scripted_backend_keeps_every_rule(judge):
    """The scripted backend passes every rule of the contract tier, and is reported compliant."""
    done = judge("scripted", "--sessions=3")
    report = done.report

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert list(report) == [
        "backend", "distribution", "version", "model", "options", "suite", "verdict", "rules",
        "summary", "tested", "untried", "not_tested",
    ]  # fmt: skip
    assert (
        report["backend"],
        report["distribution"],
        report["model"],
        report["verdict"],
    ) == ("scripted", "wlk-conformance", "digits", "compliant")
    assert list(done.rows) == RULES
    outcomes = {rule: row["outcome"] for rule, row in done.rows.items()}
    not_judged = {"PKG-05", "ISO-07", "LANG-02", "QUAL-01", "QUAL-02", "QUAL-03"}
    assert {rule for rule, outcome in outcomes.items() if outcome == "n/a"} == not_judged
    assert set(outcomes.values()) == {"pass", "n/a"}
    assert done.stdout.endswith(f"  COMPLIANT ({len(RULES) - 6} of {len(RULES)} rules tested)\n")
    assert "  not tested, not declared by the backend: PKG-05, ISO-07\n" in done.stdout
    assert "  not tested, not selected: LANG-02, QUAL-01, QUAL-02, QUAL-03\n" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("policy", SCRIPTED_SPEC.policies)
def test_every_policy_of_the_scripted_backend_complies(judge, policy):
    """LocalAgreement, AlignAtt and a native recognizer keep every rule, and each of them is run."""
    done = judge("scripted", "--policy", policy, "--speech", "--sessions=24")
    report = done.report

    outcomes = {rule: row["outcome"] for rule, row in done.rows.items()}
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert (report["options"], report["verdict"]) == ({"policy": policy}, "compliant")
    assert {rule for rule, came in outcomes.items() if came == "n/a"} == {
        "PKG-05",
        "ISO-07",
        "QUAL-01",
    }
    assert {"pass", "n/a", "advisory"} >= set(outcomes.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "rules"),
    [
        ("fake-silent", {"COM-03", "SIL-01", "LIFE-02"}),
        ("fake-raising", {"COM-03", "LIFE-01"}),
        ("fake-unloadable", {"COM-03", "LIFE-01"}),
    ],
)
def test_a_backend_that_fails_is_reported(judge, backend, rules):
    """Silence and exceptions fail the rules that they break."""
    done = judge(backend, "--time-limit", "20")
    report = done.report

    assert done.returncode == 1
    assert report["verdict"] == "not compliant"
    assert rules <= done.failed
    assert list(done.rows) == RULES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "detail"),
    [
        ("fake-hanging", "hung: no call returned within 2 s"),
        ("fake-dying", "the process was killed by SIGABRT"),
    ],
)
def test_a_backend_that_never_returns_is_reported(judge, backend, detail):
    """A call that hangs or kills the process is one line; after three the others fail unreached."""
    began = monotonic()
    done = judge(backend, "--time-limit", "2")

    details = [done.rows[rule]["detail"] for rule in done.failed]
    assert done.returncode == 1
    assert monotonic() - began < 60
    assert list(done.rows) == RULES
    assert done.rows["IN-05"]["detail"].startswith(detail)
    assert any(text.startswith("not reached:") for text in details)
    assert done.stdout.endswith(
        f"  NOT COMPLIANT: IN-05; {len(done.failed) - 1} of {len(RULES)} rules not reached: "
        "3 calls hung or crashed\n"
    )
    assert len(done.stdout.splitlines()) < 60  # fits about one screen
    assert "not reached:" not in done.stdout.rpartition("NOT COMPLIANT")[0]
    assert "wlk_conformance" not in done.stdout  # no stack frames of the suite


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "how", "more"),
    [
        ("fake-stalling", "hung", ": no call returned within 4 s; start_"),
        ("fake-aborting", "the process was killed by SIGABRT", " in start_"),
    ],
)
def test_a_session_that_does_not_end_is_reported(judge, tmp_path, backend, how, more):
    """A hang or an abort in a session is one line, for its call; later rules are judged."""
    done = judge(backend, "--time-limit", "4")
    rows = done.rows

    assert rows["SIL-01"]["detail"].startswith(how + more)
    assert ", action " in rows["SIL-01"]["detail"]
    assert sum(" fail " in line for line in done.stdout.splitlines()) == 1
    assert done.failed == {"SIL-01", "COM-04"}
    assert rows["COM-04"]["detail"] == f"not reached: {how} in SIL-01"
    assert rows["RES-04"]["outcome"] == "pass"
    assert f"--replay wlk-replays/{backend}-crashed.json" in done.stdout
    assert (tmp_path / "wlk-replays" / f"{backend}-crashed.json").is_file()


@pytest.mark.slow
def test_a_process_that_crashes_at_its_exit_fails(judge):
    """Every rule was judged, but the backend crashes its process at the exit."""
    done = judge("fake-crashing", "--sessions", "0")
    rows = done.rows

    assert done.returncode == 1
    assert done.failed == {"LIFE-10"}
    assert rows["LIFE-10"]["detail"].startswith("after the last test")
    assert rows["LIFE-10"]["detail"].endswith("the process was killed by SIGABRT")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no backend called 'nowhere'"),
        (["scripted", "--policy", "guess"], "local-agreement"),
        (["scripted", "--option", "speed=11"], "tick_seconds"),
        (["scripted", "--policy", "native", "--option", "tick_seconds=2"], "takes no tick_seconds"),
        (["scripted", "--option", "tick_seconds=soon"], "tick_seconds"),
        (["scripted", "--option", "language=xx"], "expected one of: en, de"),
        (["scripted", "--option", "novalue"], "KEY=VALUE"),
        (["scripted", "--report", "no/such/folder/report.json"], "no/such/folder"),
        (
            ["scripted", "--rule", "SIL-99"],
            "no rule 'SIL-99' in the contract; expected one of: SIL",
        ),
        (["--explain", "TIM-05"], "no rule 'TIM-05' in the contract"),
        (["scripted", "--model", "nothing"], "has one model, digits"),
        (["fake-picky"], "Tuesdays"),
        (["scripted", "--words", "cats"], "cats contains no recordings"),
        ([], "BACKEND"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(judge, arguments, message):
    """A run that cannot begin has no verdict: a line on standard error and status 2."""
    done = judge(*arguments)

    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("wlk-conformance: ")
    assert message in line
    assert done.stdout == ""


def test_one_rule_is_tested_and_is_no_verdict(judge):
    """`--rule` leaves the others out, and its result does not read as a verdict."""
    done = judge("scripted", "--rule", "SIL-02")
    report = done.report

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"  the chosen rules pass (1 of {len(RULES)} rules tested)\n")
    assert "  SIL-01 " not in done.stdout
    assert report["verdict"] == "the chosen rules pass"


@pytest.fixture
def begun(tmp_path, environment):
    """Return a function that begins a run whose output is a file, and ends it at the latest."""
    runs = []

    def begin(*arguments):
        command = [sys.executable, "-P", "-m", "wlk_conformance", *arguments]
        with (tmp_path / "printed").open("wb") as output:
            runs.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=output))
        return runs[-1]

    yield begin
    for run in runs:
        run.kill()
        run.wait()


def wait_for(claim):
    """Wait until *claim* is true, and return what it returned."""
    for _ in range(1200):
        if result := claim():
            return result
        threading.Event().wait(0.1)
    raise AssertionError("it did not become true within two minutes")


def printed_rows(folder):
    """Return the lines of rules that a run wrote to its file so far."""
    lines = (folder / "printed").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if re.match(r"  [A-Z]+-\d\d ", line)]


def runs_of(parent):
    """Return the processes that run the tests for *parent*."""
    return [
        process
        for process in parent.children(recursive=True)
        if "wlk_conformance.suite_run" in process.cmdline()
    ]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_run_that_is_ended_reports_what_it_judged(begun, tmp_path):
    """
    Each line is written as soon as its rule is judged, also to a file.

    SIGTERM ends the run with a report on these rules, whose verdict claims nothing, and with the
    process that runs the tests.
    """
    run = begun("scripted", "--report", "report.json")
    wait_for(lambda: len(printed_rows(tmp_path)) > 3)
    (child,) = runs_of(psutil.Process(run.pid))
    run.terminate()
    status = run.wait(60)
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    outcomes = Counter(row["outcome"] for row in report["rules"])
    last = (tmp_path / "printed").read_text(encoding="utf-8").splitlines()[-1]

    assert status == 128 + signal.SIGTERM
    assert not child.is_running()
    assert report["verdict"] == "not compliant"
    assert last == f"  {report['summary']}"
    assert last.startswith("  NOT FINISHED: SIGTERM ended the run; ")
    assert last.endswith(f" of {len(RULES)} rules were judged, failed: none")
    assert outcomes["fail"] > 0
    assert {row["detail"] for row in report["rules"] if row["outcome"] == "fail"} == {
        "not reached: SIGTERM ended the run"
    }
    assert not (tmp_path / "wlk-replays").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_no_process_outlives_a_run_that_is_killed(begun):
    """The process that runs the tests ends when the command is gone, whatever ended that."""
    run = begun("scripted")
    (child,) = wait_for(lambda: runs_of(psutil.Process(run.pid)))
    run.kill()
    run.wait()

    psutil.wait_procs([child], timeout=60)

    assert not child.is_running()


@pytest.mark.slow
def test_a_failure_is_printed_when_it_is_found(judge):
    """The line of a rule that fails comes at once, with its explanation before the next rule."""
    done = judge("fake-printing", "--rule", "PKG-01", "--rule", "PKG-06", "--rule", "IN-01")
    lines = done.stdout.splitlines()
    rows = [line for line in lines if re.match(r"  [A-Z]+-\d\d ", line)]

    assert [row.split()[:2] for row in rows] == [
        ["PKG-06", "fail"], ["PKG-01", "pass"], ["IN-01", "pass"],
    ]  # fmt: skip
    assert lines.index(rows[0]) < lines.index("PKG-06  " + done.rows["PKG-06"]["sentence"])
    assert lines.index("PKG-06  " + done.rows["PKG-06"]["sentence"]) < lines.index(rows[1])


INSTALLED = {
    "wlk_framed.py": """
from wlk_core.plugins import BackendSpec, hookimpl

@hookimpl
def wlk_backends():
    return [BackendSpec(name="framed", api=1, summary="needs psutil", load="wlk_framed_engine:load",
                        requires={"psutil": "pip install wlk-framed"}, default_model="digits")]
""",
    "wlk_framed_engine.py": """
import psutil
from wlk_conformance.scripted.backend import load
""",
    "wlk_framed-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: wlk-framed\nVersion: 1.0\n",
    "wlk_framed-1.0.dist-info/top_level.txt": "wlk_framed\nwlk_framed_engine\n",
    "wlk_framed-1.0.dist-info/entry_points.txt": "[wlk.plugins]\nframed = wlk_framed\n",
}


def test_a_plugin_in_a_wheel_is_not_blamed_for_its_framework(judge, environment, tmp_path):
    """PKG-05 holds for a plugin whose distribution lists its modules, as every wheel does."""
    site = tmp_path / "site"
    for name, text in INSTALLED.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    environment["PYTHONPATH"] = os.pathsep.join([str(site), environment["PYTHONPATH"]])
    done = judge("framed", "--rule", "PKG-05")

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "the chosen rules pass (1 of " in done.stdout


def test_a_rule_is_explained(judge):
    """`--explain` prints the sentence of a rule, its causes and the command that tests it."""
    done = judge("--explain", "TIME-05")

    assert (done.returncode, done.stderr) == (0, "")
    assert "Times come from the model's own positions" in done.stdout
    assert "- words are spread evenly over their segment" in done.stdout
    assert done.stdout.endswith("run it with: wlk-conformance BACKEND --rule TIME-05\n")


@pytest.mark.slow
def test_the_current_directory_has_no_effect(judge, tmp_path):
    """A pytest configuration, a conftest and a numpy.py in the directory are not read."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    (tmp_path / "conftest.py").write_text("raise RuntimeError('conftest was imported')\n")
    (tmp_path / "numpy.py").write_text("raise RuntimeError('numpy.py was imported')\n")
    (tmp_path / "test_numbers.py").write_text("def test_one(): assert False\n")
    done = judge("fake-printing", "--time-limit", "20")

    assert done.returncode == 1
    assert "NOT COMPLIANT: PKG-06\n" in done.stdout
    assert not any(line.startswith("a line of a library") for line in done.stdout.splitlines())
