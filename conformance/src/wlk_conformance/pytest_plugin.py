"""The pytest plugin: options, fixtures, rules as tests, and the report at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.report import Report
    from wlk_conformance.rules import RuleTest, TestOutcome
    from wlk_core.registry import PluginInfo

# Every pytest run of an environment with the suite imports this module.  Heavy imports stand in the
# functions below, which run only where there are rules.
pytest.register_assert_rewrite("wlk_conformance.suite")

_RUNS = pytest.StashKey["dict[type, _ClassRun]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that ``wlk-conformance`` passes on."""
    group = parser.getgroup("wlk-conformance", "the contract of streaming speech backends")
    for name, text, how in (
        ("backend", "test this installed backend", {}),
        ("model", "the model to load", {}),
        ("words", "digits, or a folder of recordings: what is recognised", {}),
        ("report", "write the report as JSON, or Markdown if its name ends in .md", {}),
        ("events", "write an event for each test as it happens", {}),
        ("replay", "play this session, and nothing else", {}),
        ("replays", "write sessions that fail to this folder", {}),
        ("option", "an option KEY=VALUE of the backend or its streams; may be repeated",
         {"action": "append", "default": []}),
        ("rule", "test this rule only; may be repeated", {"action": "append", "default": []}),
        ("skip", "leave this test out; may be repeated", {"action": "append", "default": []}),
        ("sessions", "generate so many sessions", {"type": int}),
        ("seed", "seed of the sessions (default: 0)", {"type": int, "default": 0}),
        ("speech", "run the speech tier as well", {"action": "store_true"}),
        ("long", "run the long tier as well", {"action": "store_true"}),
    ):  # fmt: skip
        settings: dict[str, Any] = how
        group.addoption(f"--wlk-{name}", help=text, **settings)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and the bookkeeping."""
    config.addinivalue_line("markers", "wlk_rule(id): a rule of the contract of wlk backends")
    config.stash[_RUNS] = {}


@attrs.define(eq=False)
class _ClassRun:
    """One class of rules in progress: its backend and its outcomes."""

    under_test: BackendUnderTest
    owner: PluginInfo
    suite: str
    tests: list[RuleTest]  # those collected, in order
    events: Path | None
    outcomes: list[TestOutcome] = attrs.field(factory=list)

    def note(self, outcome: TestOutcome) -> None:
        """Note the outcome of a test, or what was found in it."""
        self.outcomes.append(outcome)
        self.log({"end": attrs.asdict(outcome)})

    def log(self, event: dict[str, Any]) -> None:
        """Write an event to disk before the next thing happens, for `SuiteRun`."""
        if self.events is not None:
            with self.events.open("a", encoding="utf-8") as file:
                file.write(json.dumps(event) + "\n")

    def excuse(self, rule: str, since: str) -> str:
        """Return why a failure of *rule*, by a test that is so old, does not fail the run."""
        from wlk_conformance.report import is_newer  # noqa: PLC0415 -- see above

        if rule in self.under_test.spec.deviations:
            return f"deviation: {self.under_test.spec.deviations[rule]}"
        is_advisory = is_newer(since, self.suite)
        return f"advisory: new in suite {since}, pinned to {self.suite}" if is_advisory else ""

    @property
    def report(self) -> Report:
        """The report so far."""
        from wlk_conformance.report import Report  # noqa: PLC0415 -- see above

        return Report.of(self.under_test, self.owner, self.tests, self.outcomes, suite=self.suite)


@pytest.fixture(scope="class", name="wlk_run")
def _wlk_run(request: pytest.FixtureRequest) -> Iterator[_ClassRun]:
    """Find the backend that a class names; it is loaded when the first rule needs it."""
    from wlk_conformance.backend_under_test import find_backend  # noqa: PLC0415 -- see above
    from wlk_conformance.calls import CALLS, Calls  # noqa: PLC0415 -- see above
    from wlk_conformance.runner import leaked_processes  # noqa: PLC0415 -- see above
    from wlk_conformance.sessions.session import Session  # noqa: PLC0415 -- see above

    suite, chosen = request.cls, request.config.getoption
    paths = {name: chosen(f"--wlk-{name}") for name in ("events", "replay", "replays")}
    events, replay, replays = (path and Path(path) for path in paths.values())
    under_test, owner = find_backend(
        suite.backend or chosen("--wlk-backend") or "",
        model=suite.model or chosen("--wlk-model"),
        options=suite.options,
        pairs=chosen("--wlk-option"),
        tiers=[tier for tier in ("speech", "long") if chosen(f"--wlk-{tier}")],
        words=suite.words or chosen("--wlk-words"),
        rules=chosen("--wlk-rule"),
        calls=Calls(events and events.with_suffix(CALLS)),
        seed=chosen("--wlk-seed"),
        sessions=chosen("--wlk-sessions"),
        replays=replays,
        replay=replay and Session.from_json(replay.read_text(encoding="utf-8")),
    )
    collected = [_declared(item) for item in request.session.items if _class_of(item) is suite]
    tests = [test for test in collected if test is not None]
    class_run = _ClassRun(under_test, owner, suite.suite, tests, events)
    request.config.stash[_RUNS][suite] = class_run
    yield class_run
    under_test.close()
    for outcome in leaked_processes(under_test):
        class_run.note(outcome)
        _report_finding(outcome, class_run)


@pytest.fixture(name="wlk")
def _wlk(wlk_run: _ClassRun) -> BackendUnderTest:
    """Return the backend under test."""
    return wlk_run.under_test


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that belong to rules."""
    declared = _declared(item)
    if declared is not None:
        item.add_marker(pytest.mark.wlk_rule(declared.id))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that an earlier process of the same run has judged."""
    skipped = set(config.getoption("--wlk-skip"))
    left_out = [item for item in items if item.name in skipped and _declared(item) is not None]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run the test of a rule, and report its outcome to pytest."""
    declared = _declared(pyfuncitem)
    if declared is None:
        return None
    from wlk_conformance.runner import examine, findings  # noqa: PLC0415 -- see above

    class_run = cast("_ClassRun", pyfuncitem.funcargs["wlk_run"])
    under_test = class_run.under_test
    class_run.log({"begin": declared.id, "test": declared.name})
    found: list[TestOutcome] = []

    def take_findings() -> None:
        for finding in findings(declared, under_test):
            class_run.note(finding)
            found.append(finding)

    under_test.at_finding = take_findings
    outcome = examine(declared, pyfuncitem.obj, under_test)
    take_findings()
    if under_test.refusal is not None:
        class_run.log({"refusal": str(under_test.refusal)})
    class_run.note(outcome)
    for finding in found:
        _report_finding(finding, class_run)
    _report_to_pytest(declared, outcome, class_run)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(
    report: pytest.TestReport, config: pytest.Config
) -> tuple[str, str, str] | None:
    """Print no letter of a test for ``wlk-conformance``, which shows what the backend printed."""
    return (report.outcome, "", "") if config.getoption("--wlk-events") else None


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table of every class of rules, and write the report of the last one."""
    for class_run in config.stash[_RUNS].values():
        report = class_run.report
        terminalreporter.write_line(report.as_table(width=terminalreporter._tw.fullwidth))  # noqa: SLF001 -- pytest has no public name for it
        if path := config.getoption("--wlk-report"):
            report.write(Path(path))


def _report_to_pytest(declared: RuleTest, outcome: TestOutcome, class_run: _ClassRun) -> None:
    if outcome.status == "n/a":
        pytest.skip(f"n/a: {outcome.detail}")
    if outcome.status == "fail":
        if excuse := class_run.excuse(declared.id, declared.since):
            pytest.xfail(excuse)
        pytest.fail(outcome.explanation or outcome.detail, pytrace=False)
    result = next(result for result in class_run.report.rules if result.id == declared.id)
    done = {outcome.test for outcome in class_run.outcomes}
    is_last = all(test.name in done for test in class_run.tests if test.id == declared.id)
    if result.outcome == "stale" and is_last:
        text = result.detail.removeprefix("the rule holds; ")
        pytest.fail(f"stale: {declared.id} holds; {text}", pytrace=False)


def _report_finding(finding: TestOutcome, class_run: _ClassRun) -> None:
    """Fail the test in which a monitor found that another rule is broken, unless that is known."""
    from wlk_conformance.rules import MONITORED_SINCE  # noqa: PLC0415 -- see above

    if not class_run.excuse(finding.rule, MONITORED_SINCE):
        pytest.fail(finding.explanation or finding.detail, pytrace=False)


def _class_of(item: pytest.Item) -> type | None:
    return item.cls if isinstance(item, pytest.Function) else None


def _declared(item: pytest.Item) -> RuleTest | None:
    if not isinstance(item, pytest.Function):
        return None
    declared: RuleTest | None = getattr(item.function, "wlk_rule", None)
    return declared
