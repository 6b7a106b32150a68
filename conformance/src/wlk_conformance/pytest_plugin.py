"""The pytest plugin: options, fixtures, rules as tests, and the report at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.report import Report, RuleResult
    from wlk_conformance.rules import RuleTest, TestOutcome

# Every pytest run in an environment with the suite imports this module, so heavy imports are inside
# the functions below, which run only if rules are collected.
pytest.register_assert_rewrite("wlk_conformance.suite")

_RUNS = pytest.StashKey["dict[type, _ClassRun]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options that correspond to those of ``wlk-conformance``."""
    group = parser.getgroup("wlk-conformance", "the contract of streaming speech backends")
    for name, text, how in (
        ("words", "digits, or a folder of recordings: the words that are recognised", {}),
        ("report", "write the report as JSON", {}),
        ("rule", "test this rule only; may be repeated", {"action": "append", "default": []}),
        ("sessions", "number of sessions to generate", {"type": int}),
        ("seed", "seed of the generated sessions (default: 0)", {"type": int, "default": 0}),
        ("speech", "run the speech tier as well", {"action": "store_true"}),
        ("long", "run the long tier as well", {"action": "store_true"}),
    ):
        settings: dict[str, Any] = how
        group.addoption(f"--wlk-{name}", help=text, **settings)


@attrs.define(eq=False)
class _ClassRun:
    under_test: BackendUnderTest
    suite: str
    tests: list[RuleTest]  # those collected, in order
    outcomes: list[TestOutcome] = attrs.field(factory=list)

    @property
    def report(self) -> Report:
        """The report so far."""
        from wlk_conformance.report import Report  # noqa: PLC0415 -- see above

        return Report.of(self.under_test, self.outcomes, suite=self.suite)

    def check(self, outcome: TestOutcome) -> None:
        """Fail the running test, unless a deviation or the pinned suite version excuses it."""
        if outcome.status == "fail" and self.result(outcome.rule).outcome == "fail":
            pytest.fail(outcome.explanation or outcome.detail, pytrace=False)

    def result(self, rule: str) -> RuleResult:
        """Return the result of *rule* so far."""
        return next(result for result in self.report.rules if result.id == rule)


@pytest.fixture(scope="class", name="wlk_run")
def _wlk_run(request: pytest.FixtureRequest) -> Iterator[_ClassRun]:
    """Find the backend that a class names; it is loaded when the first rule needs it."""
    from wlk_conformance.backend_under_test import find_backend  # noqa: PLC0415 -- see above
    from wlk_conformance.runner import leaked_processes  # noqa: PLC0415 -- see above

    suite, chosen = request.cls, request.config.getoption
    under_test = find_backend(
        suite.backend,
        model=suite.model,
        options=suite.options,
        tiers=[tier for tier in ("speech", "long") if chosen(f"--wlk-{tier}")],
        words=suite.words or chosen("--wlk-words"),
        rules=chosen("--wlk-rule"),
        seed=chosen("--wlk-seed"),
        sessions=chosen("--wlk-sessions"),
    )
    items = (i for i in request.session.items if isinstance(i, pytest.Function) and i.cls is suite)
    tests = [test for test in map(_declared, items) if test is not None]
    class_run = _ClassRun(under_test, suite.suite, tests)
    request.config.stash.setdefault(_RUNS, {})[suite] = class_run
    yield class_run
    under_test.close()
    for outcome in leaked_processes(under_test):
        class_run.outcomes.append(outcome)
        class_run.check(outcome)


@pytest.fixture(name="wlk")
def _wlk(wlk_run: _ClassRun) -> BackendUnderTest:
    return wlk_run.under_test


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run the test of a rule, and report its outcome to pytest."""
    declared = _declared(pyfuncitem)
    if declared is None:
        return None
    from wlk_conformance.runner import judge  # noqa: PLC0415 -- see above

    class_run = cast("_ClassRun", pyfuncitem.funcargs["wlk_run"])
    before = len(class_run.outcomes)
    outcome = judge(declared, pyfuncitem.obj, class_run.under_test, class_run.outcomes.append)
    for noted in class_run.outcomes[before:]:  # findings of monitors, then its own outcome
        class_run.check(noted)
    result = class_run.result(declared.id)
    if outcome.status == "fail":
        pytest.xfail(f"{result.outcome}: {result.detail}")
    if outcome.status == "n/a":
        pytest.skip(f"n/a: {outcome.detail}")
    done = {outcome.test for outcome in class_run.outcomes}
    is_last = all(test.name in done for test in class_run.tests if test.id == declared.id)
    if result.outcome == "stale" and is_last:
        text = result.detail.removeprefix("the rule holds; ")
        pytest.fail(f"stale: {declared.id} holds; {text}", pytrace=False)
    return True


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table of each tested backend, and write the JSON report of the last one."""
    for class_run in config.stash.get(_RUNS, {}).values():
        report = class_run.report
        terminalreporter.write_line(report.as_table(width=terminalreporter._tw.fullwidth))  # noqa: SLF001 -- pytest has no public name for it
        if path := config.getoption("--wlk-report"):
            Path(path).write_text(report.as_json(), encoding="utf-8")


def _declared(item: pytest.Item) -> RuleTest | None:
    declared: RuleTest | None = getattr(getattr(item, "function", None), "wlk_rule", None)
    return declared
