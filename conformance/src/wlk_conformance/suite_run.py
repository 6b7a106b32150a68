"""A run of the suite in a subprocess, watched from outside."""

from __future__ import annotations

import os
from pathlib import Path
import subprocess
import sys
import tempfile
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import attrs

from wlk_conformance.events import Events
from wlk_conformance.explanation import check_rules
from wlk_conformance.loading import find_backend
from wlk_conformance.report import Report, judge_all
from wlk_conformance.rules import SUITE_VERSION, RuleTest, TestOutcome, rule_tests
from wlk_conformance.runner import SESSIONS_TEST, not_applicable, not_reached, reason_to_skip
from wlk_conformance.sessions.actions import Session
from wlk_conformance.sessions.stopped import stopped_session
from wlk_conformance.suite import BackendConformance
from wlk_conformance.watchdog import PATIENCE
from wlk_core.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.stimuli import KnownWords
    from wlk_core.registry import PluginInfo

__all__ = ["SuiteRun"]

REPLAYS = Path("wlk-replays")  # in the current directory, made when a session fails
RESTARTS = 3  # new processes for the tests that are left after a hang or the end of a process
TICK = 0.1  # seconds between two reads of the events
GRACE = 30.0  # seconds more than the run's own limit before it is ended from outside
LINES = 15  # of the output of a run that ended early


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

    @classmethod
    def prepare(
        cls,
        backend: str,
        *,
        model: str | None,
        pairs: Sequence[str],
        tiers: Sequence[str],
        time_limit: float,
        words: KnownWords | None = None,
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
        first_stop = next((outcome for outcome in failed if outcome.is_hung), None)
        return [
            _shortened(outcome) if outcome.is_hung and outcome is not first_stop
            else outcome.explanation
            for outcome in sorted(failed, key=lambda o: not o.is_first)
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
            for _ in range(1 + RESTARTS):
                known = len(events.outcomes)
                ended = self._watch(events, printed, progress)
                if events.refusal is not None:
                    raise BackendUnavailable(events.refusal)
                ended = self._note_stop(events, ended, printed)
                if not self._missing() or len(events.outcomes) == known:
                    break
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
            )
        moved = monotonic()
        try:
            while True:
                is_over = _wait(process)
                if events.read():
                    moved = monotonic()
                    if progress is not None and events.running is not None:
                        progress(events.running[0])
                if is_over:
                    return f"the process ended with status {process.returncode}"
                if monotonic() - moved > PATIENCE * self.time_limit + GRACE:
                    return "hung"
        finally:
            process.kill()
            process.wait()
            if progress is not None:
                progress(None)

    def _command(self, events: Path) -> list[str]:
        ini = Path(__file__).with_name("installed.ini")
        command = [
            sys.executable,
            "-P",  # a numpy.py in the current directory is not numpy
            *("-m", "pytest", "-q", "--noconftest"),
            *("-c", str(ini), "--rootdir", str(ini.parent)),
            *("-p", "no:cacheprovider", "-p", "wlk_conformance.pytest_plugin"),
            *("--pyargs", "wlk_conformance.installed"),
            f"--wlk-backend={self.under_test.spec.name}",
            f"--wlk-events={events}",
            f"--wlk-time-limit={self.time_limit}",
            f"--wlk-seed={self.seed}",
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
        Take the outcomes of a process that is over, and add that of the test that it ended in.

        Returns where it stopped.  The tests that are left run in a new process.
        """
        if events.running is not None:
            rule, name = events.running
            events.running = None
            advice = stopped_session(REPLAYS, self.under_test) if name == SESSIONS_TEST else ""
            events.outcomes.append(_stopped(rule, name, ended, printed, advice))
            ended = f"{ended} in {rule}"
        else:
            hung = [outcome.rule for outcome in events.outcomes if outcome.is_hung]
            ended = f"hung in {hung[-1]}" if hung else ended
        self.outcomes = list(events.outcomes)
        return ended

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
                self.outcomes.append(_stopped(test.id, test.name, ended, printed))
                ended = f"{ended} in {test.id}"


def _stopped(rule: str, name: str, ended: str, printed: Path, advice: str = "") -> TestOutcome:
    """Return the outcome of a test in which the process ended, with what it printed last."""
    tail = printed.read_text(encoding="utf-8", errors="replace").splitlines()[-LINES:]
    return TestOutcome(
        rule=rule,
        test=name,
        status="fail",
        detail=ended,
        explanation="\n".join(filter(None, [f"{rule}  {ended}", advice, *tail])),
        is_hung=True,
    )


def _shortened(outcome: TestOutcome) -> str:
    """Return the explanation of a later stop, whose stack is seldom another one, or its replay."""
    lines = outcome.explanation.splitlines()
    return outcome.explanation if "replay:" in outcome.explanation else "\n".join(lines[:2])


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
