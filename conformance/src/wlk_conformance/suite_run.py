"""A run of the suite in a subprocess, watched from outside."""

from __future__ import annotations

from contextlib import suppress
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import attrs

from wlk_conformance.calls import CallRecord
from wlk_conformance.events import CALLS, Events
from wlk_conformance.explanation import check_rules
from wlk_conformance.loading import find_backend
from wlk_conformance.report import Report, judge_all
from wlk_conformance.rules import SUITE_VERSION, RuleTest, TestOutcome, rule_tests
from wlk_conformance.runner import SESSIONS_TEST, not_applicable, not_reached, reason_to_skip
from wlk_conformance.sessions.replay import stopped_session
from wlk_conformance.sessions.session import Session
from wlk_conformance.stops import Stop, not_judged
from wlk_conformance.suite import BackendConformance
from wlk_conformance.watchdog import HASTE
from wlk_core.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_core.registry import PluginInfo

__all__ = ["SuiteRun"]

REPLAYS = Path("wlk-replays")  # in the current directory, made when a session fails
LOST_LIMITS = 7  # time limits that stops may cost; with 120 s a run that always hangs takes 15 min
SESSION_STOPS = 3  # sessions that hang or end the process, after which no more are played
TICK = 0.1  # seconds between two reads of the events
GRACE = 30.0  # seconds more than the run's own limit before it is ended from outside


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
    seed: int = 0
    sessions: int | None = None
    replay: Path | None = None
    tests: Sequence[RuleTest] = attrs.field(
        factory=lambda: [test for test, _ in rule_tests(BackendConformance)], init=False
    )
    outcomes: list[TestOutcome] = attrs.field(factory=list, init=False)
    _hung: set[str] = attrs.field(factory=set, init=False)  # calls
    _session_stops: int = attrs.field(default=0, init=False)
    _first_session: int = attrs.field(default=0, init=False)
    _lost: float = attrs.field(default=0.0, init=False)  # seconds that stops cost

    @classmethod
    def prepare(
        cls,
        backend: str,
        *,
        model: str | None,
        pairs: Sequence[str],
        tiers: Sequence[str],
        time_limit: float,
        words: str | None = None,
        rules: Sequence[str] = (),
        seed: int = 0,
        sessions: int | None = None,
        replay: Path | None = None,
    ) -> Self:
        """
        Find the backend and check the options, KEY=VALUE texts, and the rules; loads nothing.

        `seed` and `sessions` choose the generated sessions, and `replay` is a file with one session
        to play instead of everything.

        Raises:
            BackendUnavailable: it is not installed, or broken.
            OptionError: an option or a rule is unknown, or an option does not take the value.

        """
        check_rules(rules)
        under_test, owner = find_backend(
            backend, model=model, pairs=pairs, tiers=tiers, words=words, rules=rules
        )
        if replay is not None:
            under_test.replay = Session.from_json(replay.read_text(encoding="utf-8"))
        return cls(under_test, owner, tuple(pairs), time_limit, seed, sessions, replay)

    @property
    def explanations(self) -> list[str]:
        """The full text of each failure that no deviation covers, causes of others first."""
        deviations = self.under_test.spec.deviations
        failed = [
            outcome
            for outcome in self.outcomes
            if outcome.status == "fail" and outcome.rule not in deviations and outcome.explanation
        ]
        stops: dict[str, TestOutcome] = {}  # one for each rule, with its replay if one has any
        for outcome in failed:
            known = stops.get(outcome.rule)
            if outcome.is_hung and (known is None or "replay:" not in known.explanation):
                stops[outcome.rule] = outcome
        first = next(iter(stops.values()), None)
        return [
            _shortened(outcome) if outcome.is_hung and outcome is not first
            else outcome.explanation
            for outcome in sorted(failed, key=lambda o: not o.is_first)
            if not outcome.is_hung or outcome is stops[outcome.rule]
        ]  # fmt: skip

    def run(self, *, progress: Callable[[str | None], None] | None = None) -> Report:
        """
        Run the suite and return its report.

        Raises:
            BackendUnavailable: the backend could not be loaded and explained why.

        """
        with tempfile.TemporaryDirectory(prefix="wlk-conformance-") as folder:
            events = Events(Path(folder) / "events.jsonl")
            printed = Path(folder) / "printed.txt"
            has_moved = True
            while has_moved and self._lost <= LOST_LIMITS * self.time_limit:
                known = len(self._missing()), self._first_session
                ended = self._watch(events, printed, progress)
                if events.refusal is not None:
                    raise BackendUnavailable(events.refusal)
                ended = self._note_stop(events, ended, printed)
                left = self._missing()
                has_moved = bool(left) and known != (len(left), self._first_session)
            self._complete(ended, printed)
        return Report(
            backend=self.under_test.spec.name,
            distribution=self.owner.distribution,
            version=self.owner.version,
            model=self.under_test.model or self.under_test.spec.default_model,
            options=self.under_test.options,
            suite=SUITE_VERSION,
            rules=judge_all(
                self.tests,
                self.outcomes,
                deviations=self.under_test.spec.deviations,
                suite=SUITE_VERSION,
            ),
            part=self.under_test.part,
        )

    def _watch(
        self, events: Events, printed: Path, progress: Callable[[str | None], None] | None
    ) -> str:
        """Wait for the run to end, or end it; return how it stopped."""
        with printed.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 -- this interpreter, arguments of our own
                self._command(events.path),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(),
                process_group=0 if os.name == "posix" else None,
            )
        is_restart = bool(self.outcomes)
        moved = began = monotonic()
        moves, running = 0, None
        try:
            while True:
                is_over = _wait(process)
                record = CallRecord.read(events.path.with_suffix(CALLS))
                if events.read():
                    moved = monotonic()
                    if events.running not in (None, running):
                        self._lost += moved - began if is_restart and running is None else 0.0
                        running, began = events.running, moved
                    if progress is not None and events.running is not None:
                        progress(events.running[0])
                if record.moves != moves:
                    moves, moved = record.moves, monotonic()
                if is_over:
                    return f"the process ended with status {process.returncode}"
                limit = self.time_limit / (HASTE if record.call in self._hung else 1)
                if monotonic() - moved > limit + GRACE:
                    return f"hung: no thread of the process ran within {limit + GRACE:g} s"
        finally:
            self._lost += monotonic() - began
            _end(process)
            if progress is not None:
                progress(None)

    def _command(self, events: Path) -> list[str]:
        ini = Path(__file__).with_name("installed.ini")
        command = [
            sys.executable,
            "-P",  # a numpy.py in the current directory is not numpy
            *("-m", "pytest", "-q", "--noconftest"),
            "--capture=no",  # what is captured is lost when a call ends the process
            *("-c", str(ini), "--rootdir", str(ini.parent)),
            *("-p", "no:cacheprovider", "-p", "wlk_conformance.pytest_plugin"),
            *("--pyargs", "wlk_conformance.installed"),
            f"--wlk-backend={self.under_test.spec.name}",
            f"--wlk-events={events}",
            f"--wlk-time-limit={self.time_limit}",
            f"--wlk-seed={self.seed}",
            f"--wlk-first-session={self._first_session}",
            *(f"--wlk-hung={call}" for call in sorted(self._hung)),
            f"--wlk-replays={REPLAYS}",
            *(f"--wlk-option={pair}" for pair in self.pairs),
            *(f"--wlk-{tier}" for tier in sorted(self.under_test.tiers - {"contract"})),
        ]
        if self.sessions is not None:
            command.append(f"--wlk-sessions={self.sessions}")
        if self.replay is not None:
            command.append(f"--wlk-replay={self.replay.resolve()}")
        done = {outcome.test for outcome in self.outcomes}
        command += [f"--wlk-skip={test.name}" for test in self.tests if test.name in done]
        command += [f"--wlk-rule={rule}" for rule in sorted(self.under_test.rules)]
        if self.under_test.words is not None:
            command.append(f"--wlk-words={self.under_test.words}")
        if self.under_test.model is not None:
            command.append(f"--wlk-model={self.under_test.model}")
        return command

    def _missing(self) -> list[RuleTest]:
        """Return the tests that have no outcome."""
        done = {outcome.test for outcome in self.outcomes}
        return [test for test in self.tests if test.name not in done]

    def _note_stop(self, events: Events, ended: str, printed: Path) -> str:
        """
        Take the outcomes of a process that is over, and add that of the call that it ended in.

        Returns where it stopped.  The tests that are left run in a new process, and the sessions
        after the one that stopped.
        """
        new = events.outcomes[len(self.outcomes) :]
        stop = next((outcome for outcome in new if outcome.is_hung), None)
        running = CallRecord.read(events.path.with_suffix(CALLS))
        if stop is None and events.running is not None:
            declared = next(test for test in self.tests if test.name == events.running[1])
            stop = _stop(declared, ended, running).outcome(_text(printed))
            new.append(stop)
            if stop.test != declared.name:
                new.append(not_judged(declared, stop))
        events.running = None
        if stop is not None:
            how = "hung" if stop.detail.startswith("hung") else ended
            if how == "hung":
                self._hung.add(running.call)
            if new[-1].test == SESSIONS_TEST:
                new = self._after_session(new, stop, running)
            ended = f"{how} in {stop.rule}"
        self.outcomes += new
        events.outcomes = list(self.outcomes)
        return ended

    def _after_session(
        self, new: list[TestOutcome], stop: TestOutcome, running: CallRecord
    ) -> list[TestOutcome]:
        """Return the outcomes *new* with the replay of the session that stopped."""
        self._session_stops += 1
        replay = stopped_session(
            REPLAYS, self.under_test, number=self._session_stops, action=running.action
        )
        explained = attrs.evolve(
            stop,
            test=f"stop in {running.call or 'a session'}",
            explanation="\n".join(filter(None, (stop.explanation, replay))),
        )
        kept = [outcome for outcome in new if outcome is not stop and outcome.test != SESSIONS_TEST]
        if running.session >= 0 and self._session_stops < SESSION_STOPS:
            self._first_session = running.session + 1
            return [*kept, explained]
        sessions = next(test for test in self.tests if test.name == SESSIONS_TEST)
        return [*kept, explained, not_judged(sessions, explained)]

    def _complete(self, ended: str, printed: Path) -> None:
        """Add the outcomes of the tests that did not run, and what was printed if none did."""
        has_stopped = any(outcome.is_hung for outcome in self.outcomes)
        for test in self._missing():
            reason = reason_to_skip(test, self.under_test)
            if reason is not None:
                self.outcomes.append(not_applicable(test, reason))
            elif has_stopped:
                self.outcomes.append(not_reached(test, ended))
            else:
                has_stopped = True
                stop = _stop(test, ended, CallRecord(0)).outcome(_text(printed))
                self.outcomes.append(stop)
                ended = f"{ended} in {test.id}"


def _stop(declared: RuleTest, ended: str, running: CallRecord) -> Stop:
    """Return the end of a process in a test."""
    is_session = declared.name == SESSIONS_TEST
    scene = "a session" if is_session else f"the test {declared.name} of {declared.id}"
    return Stop(ended=ended, running=running, rule=declared.id, test=declared.name, scene=scene)


def _shortened(outcome: TestOutcome) -> str:
    """Return the explanation of a later stop, whose stack is seldom another one, or its replay."""
    lines = outcome.explanation.splitlines()
    return outcome.explanation if "replay:" in outcome.explanation else "\n".join(lines[:2])


def _text(printed: Path) -> str:
    return printed.read_text(encoding="utf-8", errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process, and what it started in its group."""
    if os.name == "posix":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _wait(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(TICK)
    except subprocess.TimeoutExpired:
        return False
    return True


def _environment() -> dict[str, str]:
    environment: dict[str, Any] = dict(os.environ)
    environment.pop("PYTEST_ADDOPTS", None)
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return environment
