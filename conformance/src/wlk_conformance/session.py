"""A run of the suite in an interpreter of its own, watched from outside."""

from __future__ import annotations

import os
from pathlib import Path
import subprocess
import sys
import tempfile
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import attrs

from wlk_conformance.bench import open_subject
from wlk_conformance.events import Events
from wlk_conformance.report import Report, judge_all
from wlk_conformance.rules import SUITE_VERSION, RuleTest, TestOutcome, rule_tests
from wlk_conformance.suite import BackendConformance
from wlk_conformance.watchdog import PATIENCE
from wlk_core.errors import BackendUnavailable, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_conformance.subject import Subject
    from wlk_core.registry import PluginInfo

__all__ = ["Session"]

TICK = 0.1  # seconds between two looks at what the run has written down
GRACE = 30.0  # seconds more than the run's own limit before it is ended from outside
LINES = 15  # of what a run that died has printed


@attrs.define
class Session:
    """
    The suite on one installed backend, run by pytest in a subprocess.

    Nothing of the current directory has a say: no configuration, no conftest, no other plugin.  A
    run that hangs, crashes or is killed is reported all the same.
    """

    subject: Subject
    owner: PluginInfo
    time_limit: float = 120.0
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
        options: dict[str, str],
        tiers: Sequence[str],
        time_limit: float,
    ) -> Self:
        """
        Find the backend and check the options by what it declares; loads nothing.

        Raises:
            BackendUnavailable: it is not installed, or broken.
            OptionError: an option is unknown or takes another value.

        """
        subject, owner = open_subject(backend, model=model, options=options, tiers=tiers)
        declared = {option.name for option in subject.spec.all_options} | {"language", "task"}
        unknown = [name for name in options if name not in declared]
        if unknown:
            raise OptionError(
                f"{backend}: no option is called {unknown[0]!r}; "
                f"expected one of: {', '.join(sorted(declared))}"
            )
        subject.spec.backend_options(subject.backend_options)
        stream = subject.stream_options
        subject.spec.check_language(stream.pop("language", None))
        subject.spec.check_task(stream.pop("task", "transcribe"))
        subject.spec.stream_options(stream)
        return cls(subject, owner, time_limit)

    @property
    def explanations(self) -> list[str]:
        """What is to be read about each failure that no deviation covers."""
        deviations = self.subject.spec.deviations
        return [
            outcome.explanation
            for outcome in self.outcomes
            if outcome.status == "fail" and outcome.rule not in deviations and outcome.explanation
        ]

    def run(self, *, progress: Callable[[str | None], None] | None = None) -> Report:
        """
        Run the suite and return its report.

        Raises:
            BackendUnavailable: the backend could not be loaded and said why.

        """
        with tempfile.TemporaryDirectory(prefix="wlk-conformance-") as folder:
            events = Events(Path(folder) / "events.jsonl")
            printed = Path(folder) / "printed.txt"
            ended = self._watch(events, printed, progress)
            if events.refusal is not None:
                raise BackendUnavailable(events.refusal)
            self.outcomes = list(events.outcomes)
            self._complete(events, ended, printed)
        return Report(
            backend=self.subject.spec.name,
            distribution=self.owner.distribution,
            version=self.owner.version,
            model=self.subject.model or self.subject.spec.default_model,
            options=self.subject.options,
            suite=SUITE_VERSION,
            rules=judge_all(
                self.tests,
                self.outcomes,
                deviations=self.subject.spec.deviations,
                suite=SUITE_VERSION,
            ),
        )

    def _watch(
        self, events: Events, printed: Path, progress: Callable[[str | None], None] | None
    ) -> str:
        """Wait for the run to end, or end it; return how it ended."""
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
                    return "hung: it was ended from outside"
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
            f"--wlk-backend={self.subject.spec.name}",
            f"--wlk-events={events}",
            f"--wlk-time-limit={self.time_limit}",
            *(f"--wlk-option={name}={value}" for name, value in self.subject.options.items()),
            *(f"--wlk-{tier}" for tier in sorted(self.subject.tiers - {"contract"})),
        ]
        if self.subject.model is not None:
            command.append(f"--wlk-model={self.subject.model}")
        return command

    def _complete(self, events: Events, ended: str, printed: Path) -> None:
        """Give an outcome to the tests that have none."""
        done = {outcome.test for outcome in self.outcomes}
        missing = [test for test in self.tests if test.name not in done]
        if not missing:
            return
        tail = printed.read_text(encoding="utf-8", errors="replace").splitlines()[-LINES:]
        standing = events.running or (missing[0].id, missing[0].name)
        for test in missing:
            is_it = test.name == standing[1]
            detail = ended if is_it else f"not reached: {ended}, in {standing[0]} ({standing[1]})"
            self.outcomes.append(
                TestOutcome(
                    rule=test.id,
                    test=test.name,
                    status="fail",
                    detail=detail,
                    explanation="\n".join([f"{test.id}  {ended}", *tail]) if is_it else "",
                )
            )


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
