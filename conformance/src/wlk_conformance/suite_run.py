"""Run the suite in a process of its own, and report a call that hangs or kills it."""

from __future__ import annotations

from contextlib import contextmanager, suppress
import faulthandler
from functools import partial
import json
import os
from pathlib import Path
import re
import signal
import subprocess
import sys
import tempfile
import threading
from typing import TYPE_CHECKING, Any, NoReturn

import attrs
import psutil

from wlk_conformance.backend_under_test import find_backend
from wlk_conformance.calls import RULES_OF_CALLS, CallRecord, Calls
from wlk_conformance.report import Report
from wlk_conformance.rules import (
    NOT_REACHED,
    RULES,
    SUITE_VERSION,
    NotApplicable,
    RuleTest,
    TestOutcome,
    rule_tests,
)
from wlk_conformance.runner import SESSIONS_TEST, check_applies, judge, leaked_processes
from wlk_conformance.sessions.campaign import crashed_session, discard_running
from wlk_conformance.stalls import Stall, look_at
from wlk_conformance.suite import BackendConformance, check_rules
from wlk_core.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Protocol

    from wlk_conformance.backend_under_test import BackendUnderTest

    class Listener(Protocol):
        """Whoever is told what happens in a run."""

        def begin(self, rule: str | None) -> None:
            """Note that a test of *rule* begins, None if the run ends."""

        def take(self, outcome: TestOutcome, under_test: BackendUnderTest) -> None:
            """Note an outcome."""


REPLAYS = Path("wlk-replays")  # in the current directory, created when a generated session fails
#: Files through which the process that runs the suite talks to the one that watches it.
CHOSEN, CALLS, EVENTS, PRINTED = "chosen.json", "calls", "events.jsonl", "printed.txt"
TICK = 0.1  # seconds between reads of the events
GRACE = 30.0  # extra seconds while the model is loaded or no call runs
STACKS = 5.0  # seconds for a hung process to print its stacks
LINES = 14  # last lines of the output of the process that are shown
MAX_CRASHES = 3  # hangs and crashes after which the run gives up
#: Signals that end a run with a report on what was judged until then.
ENDING = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]
#: Stack frames of the test runner, and a line that says nothing about the backend.
RUNNER = re.compile(
    r'  File "(<frozen |.*[/\\](wlk_conformance|threading\.py)\b)|Extension modules:'
)


class _Ended(BaseException):
    """One of the signals of ENDING, raised in the main thread."""


def work(folder: Path, watcher: int | None = None) -> None:
    """
    Run the tests chosen by `run_suite` that have not begun, and log events to *folder*.

    *watcher* is a pipe that closes when the process of `run_suite` ends, whatever ended it.
    """
    faulthandler.enable()
    if watcher is not None:
        threading.Thread(target=_end_with, args=(watcher,), daemon=True).start()
    under_test = find_backend(**json.loads((folder / CHOSEN).read_text(encoding="utf-8")))
    under_test.replays = REPLAYS
    under_test.calls = Calls(folder / CALLS)
    suite = BackendConformance()
    begun = {event.get("begin") for event in _events(folder)}  # in earlier processes

    def note(outcome: TestOutcome) -> None:
        if under_test.refusal is None:  # else the run has no verdict
            _log(folder, end=attrs.asdict(outcome))

    for declared, test in rule_tests(BackendConformance):
        if declared.name in begun:
            continue
        _log(folder, begin=declared.name, rule=declared.id)
        judge(declared, partial(test, suite), under_test, note)
        if under_test.refusal is not None:
            _log(folder, refusal=str(under_test.refusal))
            return
    under_test.close()
    for outcome in leaked_processes(under_test):
        note(outcome)


def run_suite(
    backend: str,
    *,
    rules: Sequence[str],
    replay: Path | None,
    time_limit: float,
    listener: Listener,
    **chosen: Any,
) -> Report:
    """
    Run the suite on an installed backend in a subprocess; return the report.

    *listener* is told of each outcome as soon as it is known.  A call that hangs or kills the
    process fails its rule, and the run continues with the next test in a new process.  After
    MAX_CRASHES such calls the rules that were not reached fail, and so they do after one of the
    signals ENDING.  `replay` is a file with a generated session to play instead of the tests.

    Raises BackendUnavailable if the backend is not installed, is broken or cannot be loaded, and
    OptionError for an unknown option or rule, an invalid value, or a file that is not a generated
    session.
    """
    check_rules(rules)
    document = None if replay is None else replay.read_text(encoding="utf-8")
    chosen |= {"name": backend, "rules": rules, "replay": document}
    under_test = find_backend(**chosen)
    ended_by = ""
    with tempfile.TemporaryDirectory(prefix="wlk-conformance-") as name:
        folder = Path(name)
        (folder / CHOSEN).write_text(json.dumps(chosen), encoding="utf-8")
        try:
            with _ending_signals():
                _Run(folder, under_test, time_limit, listener).judge_all()
        except _Ended as end:
            ended_by = str(end)
            discard_running(REPLAYS)
        finally:
            listener.begin(None)
        events = _events(folder)
        if "refusal" in events[-1]:
            raise BackendUnavailable(events[-1]["refusal"])
        outcomes = [TestOutcome(**event["end"]) for event in events if "end" in event]
        reason = f"{ended_by} ended the run" if ended_by else f"{MAX_CRASHES} calls hung or crashed"
        for test in _missing(folder):
            try:
                check_applies(test, under_test)
                outcomes.append(TestOutcome.of(test, "fail", f"{NOT_REACHED}{reason}"))
            except NotApplicable as error:
                outcomes.append(TestOutcome.of(test, "n/a", str(error), absence=error.absence))
    return Report.of(under_test, outcomes, suite=SUITE_VERSION, ended_by=ended_by)


@attrs.define
class _Run:
    """The processes of a run, one after another, and who listens to their events."""

    folder: Path
    under_test: BackendUnderTest
    time_limit: float
    listener: Listener
    _heard: int = attrs.field(default=0, init=False)  # events

    def judge_all(self) -> None:
        """Run the tests until all have ended, or too many processes crashed."""
        for _ in range(MAX_CRASHES):
            crash = self._watch()
            missing = _missing(self.folder)
            test = next(iter(missing), None)
            for outcome in _crash_outcomes(self.under_test, test, crash, self.folder):
                _log(self.folder, end=attrs.asdict(outcome))
            self._hear()
            if not crash or not missing:
                return

    def _hear(self) -> int:
        """Pass the new events on; return the number of all."""
        events = _events(self.folder)
        for event in events[self._heard :]:
            if "rule" in event:
                self.listener.begin(event["rule"])
            if "end" in event:
                self.listener.take(TestOutcome(**event["end"]), self.under_test)
        self._heard = len(events)
        return self._heard

    def _watch(self) -> str:
        """Wait for the process, and kill it if it hangs; return how it failed, "" if it did not."""
        (self.folder / CALLS).unlink(missing_ok=True)  # of the previous process
        is_posix = os.name == "posix"
        ours, kept = os.pipe() if is_posix else (-1, -1)
        with (self.folder / PRINTED).open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 -- this interpreter, arguments of our own
                # -P, so that a numpy.py in the current directory is not imported as numpy
                [sys.executable, "-P", "-m", "wlk_conformance.suite_run", str(self.folder)]
                + ([str(ours)] if is_posix else []),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                process_group=0 if is_posix else None,
                pass_fds=(ours,) if is_posix else (),
            )
        stall, seen = Stall(partial(look_at, process.pid)), (0, 0)
        try:
            while not _wait(process, TICK):
                record = CallRecord.read(self.folder / CALLS)
                now = record.moves, self._hear()
                if now != seen:
                    seen = now
                    stall.moved()
                # It counts from the last call that began or returned: a slow backend is not hung.
                limit = self.time_limit + (GRACE if record.call in ("", "load_backend") else 0.0)
                if hang := stall.hang(limit):
                    if is_posix:
                        process.send_signal(signal.SIGABRT)  # prints the stack of every thread
                        _wait(process, STACKS)
                    return f"hung: no call returned within {hang}"
        finally:
            _end(process)
            for pipe in (ours, kept) if is_posix else ():
                os.close(pipe)
        if (status := process.returncode) < 0:
            return f"the process was killed by {signal.Signals(-status).name}"
        return f"the process exited with status {status}" if status else ""


@contextmanager
def _ending_signals() -> Iterator[None]:
    """Raise _Ended at the first signal of ENDING; later ones must not prevent the report."""

    def end(number: int, _frame: object) -> NoReturn:
        for each in before:  # GNU timeout sends its signal twice
            signal.signal(each, signal.SIG_IGN)
        raise _Ended(signal.Signals(number).name)

    before = {number: signal.getsignal(number) for number in ENDING}
    before = {number: handler for number, handler in before.items() if handler != signal.SIG_IGN}
    for number in before:
        signal.signal(number, end)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and those that it started, in its own process group or in others."""
    started: list[psutil.Process] = []
    with suppress(psutil.Error):
        started = psutil.Process(process.pid).children(recursive=True)
    if os.name == "posix":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
    for other in started:
        with suppress(psutil.Error):
            other.kill()


def _end_with(watcher: int) -> None:
    """Kill this process and those of its group once *watcher* closes."""
    os.read(watcher, 1)
    os.killpg(0, signal.SIGKILL)


def _crash_outcomes(
    under_test: BackendUnderTest, test: RuleTest | None, crash: str, folder: Path
) -> list[TestOutcome]:
    """Return a failure of the last call's rule, and one of *test* if it tests another rule."""
    if not crash:
        return []
    call = CallRecord.read(folder / CALLS)
    if test is None:  # it crashed while exiting
        test, call = attrs.evolve(RULES["LIFE-10"], name="exit of the process"), CallRecord(0)
        crash = f"after the last test, once the backend had been closed, {crash}"
    is_session = test.name == SESSIONS_TEST
    scene = "a generated session" if is_session else f"the test {test.name} of {test.id}"
    broken = RULES[RULES_OF_CALLS.get(call.call, test.id)]
    detail = crash
    if call.call:
        detail += f"; {call} was running" if crash.startswith("hung") else f" in {call}"
    lines = [f"{broken.id}  {broken.sentence}", f"result: in {scene}: {detail}"]
    # Its last output, without the stack frames of the test runner.
    printed = (folder / PRINTED).read_text(encoding="utf-8", errors="replace").splitlines()
    lines += [line for line in printed if line.strip() and not RUNNER.match(line)][-LINES:]
    if is_session:
        lines.append(crashed_session(REPLAYS, under_test, action=call.action))
    is_own = broken.id == test.id and not is_session
    name = test.name if is_own else f"crash in {call.call or 'a generated session'}"
    explanation = "\n".join(lines).strip()
    broken = attrs.evolve(broken, name=name)
    outcome = TestOutcome.of(broken, "fail", detail, explanation=explanation)
    if is_own:
        return [outcome]
    detail = f"{NOT_REACHED}{crash.partition(':')[0]} in {outcome.rule}"
    return [outcome, TestOutcome.of(test, "fail", detail)]


def _log(folder: Path, **event: Any) -> None:
    """Append an event to the log, where it survives a crash of this process."""
    with (folder / EVENTS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(event) + "\n")


def _events(folder: Path) -> list[dict[str, Any]]:
    """Return an empty event and those logged so far; the last line may be incomplete."""
    try:
        lines = (folder / EVENTS).read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        lines = []
    return [{}, *map(json.loads, lines)]


def _missing(folder: Path) -> list[RuleTest]:
    """Return the tests without an outcome, in the order of the contract."""
    done = {event["end"]["test"] for event in _events(folder) if "end" in event}
    return [test for test, _ in rule_tests(BackendConformance) if test.name not in done]


def _wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.returncode is not None


if __name__ == "__main__":
    work(Path(sys.argv[1]), *map(int, sys.argv[2:]))
