"""Run the suite in a subprocess, and report calls that hang or end the process."""

from __future__ import annotations

from contextlib import suppress
import json
import os
from pathlib import Path
import re
import signal
import subprocess
import sys
import tempfile
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import attrs

from wlk_conformance.backend_under_test import find_backend
from wlk_conformance.calls import CALLS, CallRecord
from wlk_conformance.report import Report
from wlk_conformance.rules import SUITE_VERSION, RuleTest, TestOutcome, rule_test, rule_tests
from wlk_conformance.runner import SESSIONS_TEST, not_applicable, reason_to_skip
from wlk_conformance.sessions.campaign import stopped_session
from wlk_conformance.sessions.session import Session
from wlk_conformance.suite import BackendConformance
from wlk_conformance.suite.conformance import check_rules
from wlk_core.errors import BackendUnavailable, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_core.registry import PluginInfo

__all__ = ["RULES_OF_CALLS", "SuiteRun", "last_lines", "not_judged", "stopped"]

#: The rule that a call breaks that hangs or ends the process.
RULES_OF_CALLS = {
    "create_processor": "LIFE-01", "warmup": "LIFE-09", "has_backlog": "TIME-03",
    "insert_audio_chunk": "IN-04", "get_buffer": "HYP-01", "process_iter": "IN-05",
    "is_last": "LIFE-07", "start_silence": "SIL-01", "end_silence": "SIL-03",
    "new_speaker": "SPK-01", "finish": "LIFE-02", "reset": "LIFE-06", "close": "LIFE-10",
    "stats": "RES-02",
}  # fmt: skip
REPLAYS = Path("wlk-replays")  # in the current directory, made when a session fails
MAX_STOPS = 5  # processes that hang or end; with 120 s a run that always hangs takes 10 minutes
TICK = 0.1  # seconds between two reads of the events
#: Statuses of pytest: all passed, some failed, all were left out.
ENDED = tuple(f"the process ended with status {status}" for status in (0, 1, 5))
GRACE = 30.0  # seconds more while no call runs, or the model is loaded
STACKS = 5.0  # seconds in which a process that hangs prints its stacks
LINES = 8  # of what the backend printed last
FRAMES = 6  # innermost frames of a thread that ended the process
FRAME = re.compile(r'  File "(?P<file>[^"]*)"')
RUNNERS = ("<frozen ", "/_pytest/", "/pluggy/", "/wlk_conformance/", "/pytest/", "/threading.py")


@attrs.define
class _Events:
    """What a run wrote so far; `read` takes what was written since the last call."""

    path: Path
    outcomes: list[TestOutcome]
    running: tuple[str, str] | None = None  #: rule and test
    refusal: str | None = None
    _offset: int = 0

    def read(self) -> bool:
        """Take in complete new lines; return whether there were any."""
        if not self.path.exists():
            return False
        with self.path.open("rb") as file:
            file.seek(self._offset)
            lines = file.read()
        complete = lines[: lines.rfind(b"\n") + 1]
        self._offset += len(complete)
        for event in map(json.loads, complete.splitlines()):
            if "begin" in event:
                self.running = (event["begin"], event["test"])
            elif "refusal" in event:
                self.refusal = event["refusal"]
            else:
                self.outcomes.append(TestOutcome(**event["end"]))
                if self.running is not None and self.outcomes[-1].test == self.running[1]:
                    self.running = None
        return bool(complete)


@attrs.define
class SuiteRun:
    """
    The suite on one installed backend, run by pytest in a subprocess.

    The current directory has no effect: no configuration, no conftest, no other plugin.  A run
    that hangs, crashes or is killed is reported all the same, and a new process runs the rest.
    """

    under_test: BackendUnderTest
    owner: PluginInfo
    pairs: tuple[str, ...] = ()
    time_limit: float = 120.0
    replay: Path | None = None
    tests: Sequence[RuleTest] = attrs.field(
        factory=lambda: [test for test, _ in rule_tests(BackendConformance)], init=False
    )
    outcomes: list[TestOutcome] = attrs.field(factory=list, init=False)

    @classmethod
    def prepare(
        cls,
        backend: str,
        *,
        pairs: Sequence[str],
        rules: Sequence[str],
        time_limit: float,
        replay: Path | None,
        **chosen: Any,
    ) -> Self:
        """
        Find the backend and check the options, KEY=VALUE strings, and the rules; loads nothing.

        `replay` is a file with one session to play instead of everything.

        Raises:
            BackendUnavailable: it is not installed, or broken.
            OptionError: an option or a rule is unknown, an option does not take the value, or
                *replay* does not contain a session.

        """
        check_rules(rules)
        under_test, owner = find_backend(backend, pairs=pairs, rules=rules, **chosen)
        if replay is not None:
            try:
                under_test.replay = Session.from_json(replay.read_text(encoding="utf-8"))
            except ValueError as error:
                raise OptionError(f"--replay {replay}: {error}") from None
        return cls(under_test, owner, tuple(pairs), time_limit, replay)

    @property
    def explanations(self) -> list[str]:
        """The full text of each failure that no deviation covers, causes of others first."""
        deviations = self.under_test.spec.deviations
        texts: list[str] = []
        stops: set[str] = set()  # rules
        for outcome in sorted(self.outcomes, key=lambda outcome: not outcome.is_first):
            text = outcome.explanation
            if outcome.status != "fail" or outcome.rule in deviations or not text:
                continue
            if outcome.is_stop and "replay:" not in text:
                if outcome.rule in stops:
                    continue
                # The stack of a later stop is seldom another one.
                text = "\n".join(text.splitlines()[:2]) if stops else text
                stops.add(outcome.rule)
            texts.append(text)
        return texts

    def run(self, *, progress: Callable[[str | None], None] | None = None) -> Report:
        """
        Run the suite and return its report.

        Raises:
            BackendUnavailable: the backend could not be loaded and explained why.

        """
        with tempfile.TemporaryDirectory(prefix="wlk-conformance-") as folder:
            events = _Events(Path(folder) / "events.jsonl", self.outcomes)
            printed = Path(folder) / "printed.txt"
            for _ in range(MAX_STOPS):
                ended = self._watch(events, printed, progress)
                if events.refusal is not None:
                    raise BackendUnavailable(events.refusal)
                stop = self._take(events, ended, printed)
                if stop is None or not self._missing():
                    if stop is None and ended not in ENDED:  # LIFE-10: it crashed in its exit
                        close = attrs.evolve(rule_test("LIFE-10"), name="exit of the process")
                        ended = f"after the last test, when the backend had been closed, {ended}"
                        crash = stopped(close, ended, CallRecord(0), _text(printed))
                        self.outcomes.append(attrs.evolve(crash, is_stop=False))
                    break
                ended = f"{ended.partition(':')[0]} in {stop.rule}"
            self._complete(ended, printed)
        return Report.of(
            self.under_test, self.owner, self.tests, self.outcomes, suite=SUITE_VERSION
        )

    def _watch(
        self, events: _Events, printed: Path, progress: Callable[[str | None], None] | None
    ) -> str:
        """Wait for the run to end, or end it where no call returns; return how it ended."""
        calls = events.path.with_suffix(CALLS)
        calls.unlink(missing_ok=True)  # the last call of the process before would seem to run
        environment = {**os.environ, "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        with printed.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 -- this interpreter, arguments of our own
                self._command(events.path),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                process_group=0 if os.name == "posix" else None,
            )
        moved, moves = monotonic(), 0
        try:
            while True:
                is_over = _wait(process, TICK)
                record = CallRecord.read(calls)
                has_events = events.read()
                if has_events and progress is not None and events.running is not None:
                    progress(events.running[0])
                if has_events or record.moves != moves:
                    moves, moved = record.moves, monotonic()
                if is_over:
                    return _ending(process.returncode)
                # The limit counts from the last call that began or returned, because a slow
                # backend is not a hanging one.
                grace = GRACE if record.call in ("", "load_backend") else 0.0
                if monotonic() - moved > self.time_limit + grace:
                    if os.name == "posix":
                        process.send_signal(signal.SIGABRT)  # prints the stack of every thread
                        _wait(process, STACKS)
                    return f"hung: no call returned within {self.time_limit + grace:g} s"
        finally:
            _end(process)
            if progress is not None:
                progress(None)

    def _command(self, events: Path) -> list[str]:
        ini = Path(__file__).with_name("installed.ini")
        under_test = self.under_test
        done = {outcome.test for outcome in self.outcomes}
        chosen = {
            "backend": under_test.spec.name,
            "events": events,
            "model": under_test.model,
            "replay": self.replay and self.replay.resolve(),
            "replays": REPLAYS,
            "seed": under_test.seed,
            "sessions": under_test.sessions,
            "words": under_test.words,
        }
        return [
            sys.executable,
            "-P",  # a numpy.py in the current directory is not numpy
            *("-m", "pytest", "-q", "--noconftest"),
            "--capture=no",  # what is captured is lost when a call ends the process
            *("-c", str(ini), "--rootdir", str(ini.parent)),
            *("-p", "no:cacheprovider", "-p", "wlk_conformance.pytest_plugin"),
            *("--pyargs", "wlk_conformance.installed"),
            *(f"--wlk-{name}={value}" for name, value in chosen.items() if value is not None),
            *(f"--wlk-option={pair}" for pair in self.pairs),
            *(f"--wlk-{tier}" for tier in sorted(under_test.tiers - {"contract"})),
            *(f"--wlk-skip={test.name}" for test in self.tests if test.name in done),
            *(f"--wlk-rule={rule}" for rule in sorted(under_test.rules)),
        ]

    def _missing(self) -> list[RuleTest]:
        """Return the tests that have no outcome."""
        done = {outcome.test for outcome in self.outcomes}
        return [test for test in self.tests if test.name not in done]

    def _take(self, events: _Events, ended: str, printed: Path) -> TestOutcome | None:
        """Return the outcome of the call in which a process ended, if it ended in one."""
        if events.running is None:
            return None
        (_, name), events.running = events.running, None
        declared = next(test for test in self.tests if test.name == name)
        running = CallRecord.read(events.path.with_suffix(CALLS))
        stop = stopped(declared, ended, running, _text(printed))
        if name == SESSIONS_TEST:
            backend = self.under_test.spec.name
            replay = stopped_session(REPLAYS, backend, action=running.action)
            explanation = "\n".join(filter(None, (stop.explanation, replay)))
            stop = attrs.evolve(stop, explanation=explanation)
        self.outcomes.append(stop)
        if stop.test != name:
            self.outcomes.append(not_judged(declared, stop))
        return stop

    def _complete(self, ended: str, printed: Path) -> None:
        """Add the outcomes of the tests that did not run, and what was printed if none did."""
        has_stopped = any(outcome.is_stop for outcome in self.outcomes)
        for test in self._missing():
            reason = reason_to_skip(test, self.under_test)
            if reason is not None:
                self.outcomes.append(not_applicable(test, reason))
            elif has_stopped:
                detail = f"not reached: {ended}"
                self.outcomes.append(TestOutcome.failed(test, detail, is_reached=False))
            else:
                has_stopped = True
                self.outcomes.append(stopped(test, ended, CallRecord(0), _text(printed)))
                ended = f"{ended} in {test.id}"


def stopped(declared: RuleTest, ended: str, running: CallRecord, printed: str) -> TestOutcome:
    """
    Return the failure of the rule that the call *running* broke, by which a process *ended*.

    It is the rule of the test *declared* if no call ran.  *printed* is what the process printed.
    """
    is_session = declared.name == SESSIONS_TEST
    scene = "a session" if is_session else f"the test {declared.name} of {declared.id}"
    broken = rule_test(RULES_OF_CALLS.get(running.call, declared.id))
    is_hung = ended.startswith("hung")
    detail = ended
    if running.call:
        detail += f"; {running} is running" if is_hung else f" in {running}"
    lines = [
        f"{broken.id}  {broken.sentence}",
        f"result: in {scene}: {detail}",
        *last_lines(printed),
    ]
    is_own = broken.id == declared.id and not is_session
    return TestOutcome(
        rule=broken.id,
        test=declared.name if is_own else f"stop in {running.call or 'a session'}",
        status="fail",
        detail=detail,
        explanation="\n".join(lines),
        is_stop=True,
    )


def not_judged(declared: RuleTest, stop: TestOutcome) -> TestOutcome:
    """Return the outcome of a test in which a call stopped that breaks another rule."""
    how = "hung" if stop.detail.startswith("hung") else "ended the process"
    detail = f"not judged: {stop.test.removeprefix('stop in ')} {how}, see {stop.rule}"
    return TestOutcome.failed(declared, detail, is_reached=False)


def last_lines(printed: str) -> list[str]:
    """
    Return what a process printed last: lines of the backend, then the stack where it ended.

    The stack is that of the thread that ended the process, or else of the first thread with frames
    other than those of what runs the tests, which are left out.
    """
    own: list[str] = []
    heads: list[str] = []
    stacks: dict[bool, list[str]] = {True: [], False: []}  # of the current thread, and of others
    thread: bool | None = None  # whether the lines are the stack of the current thread
    for line in printed.splitlines():
        if line.startswith(("Thread 0x", "Current thread 0x")):
            thread = line.startswith("Current")
        elif line.startswith(("Fatal Python error", "Windows fatal exception")):
            heads.append(line)
        elif thread is not None and (found := FRAME.match(line)):
            if not any(runner in found["file"].replace("\\", "/") for runner in RUNNERS):
                stacks[thread].append(line)
        elif line.strip() and not heads:
            own.append(line)
    return [*own[-LINES:], *heads, *(stacks[True] or stacks[False])[:FRAMES]]


def _text(printed: Path) -> str:
    return printed.read_text(encoding="utf-8", errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process, and what it started in its group."""
    if os.name == "posix":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Return whether the process ends within *seconds*."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _ending(status: int) -> str:
    """Return how a process ended."""
    if status < 0:
        return f"the process was ended by {signal.Signals(-status).name}"
    return f"the process ended with status {status}"
