"""The pytest plugin: options, fixtures, rules as tests, and the report at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wlk_conformance.backend_under_test import BackendUnderTest
    from wlk_conformance.events import Log
    from wlk_conformance.rules import RuleTest, TestOutcome

# Every pytest run of an environment with the suite imports this module.  Heavy imports stand in the
# functions below, which run only where there are rules.
pytest.register_assert_rewrite("wlk_conformance.suite")


_RUNS = pytest.StashKey["dict[type, _ClassRun]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that ``wlk-conformance`` passes on."""
    group = parser.getgroup("wlk-conformance", "the contract of streaming speech backends")
    for name, metavar, text in (
        ("backend", "NAME", "test this installed backend"),
        ("model", "REF", "the model to load"),
        ("words", "WORDS", "digits, or a folder of recordings: what is recognised"),
        ("report", "PATH", "write the report as JSON, or Markdown if its name ends in .md"),
        ("events", "PATH", "write an event for each test as it happens"),
        ("replay", "PATH", "play this session, and nothing else"),
        ("replays", "PATH", "write sessions that fail to this folder"),
    ):
        group.addoption(f"--wlk-{name}", metavar=metavar, help=text)
    for name, metavar, text in (
        ("option", "KEY=VALUE", "an option of the backend or its streams; may be repeated"),
        ("rule", "ID", "test this rule only; may be repeated"),
        ("skip", "TEST", "leave this test out; may be repeated"),
    ):
        group.addoption(f"--wlk-{name}", metavar=metavar, action="append", default=[], help=text)
    group.addoption("--wlk-speech", action="store_true", help="run the speech tier as well")
    group.addoption("--wlk-long", action="store_true", help="run the long tier as well")
    group.addoption("--wlk-sessions", metavar="N", type=int, help="generate N sessions")
    group.addoption(
        "--wlk-seed", metavar="N", type=int, default=0, help="seed of the sessions (default: 0)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and the bookkeeping."""
    config.addinivalue_line("markers", "wlk_rule(id): a rule of the contract of wlk backends")
    config.stash[_RUNS] = {}


@attrs.define(eq=False)
class _ClassRun:
    """One class of rules in progress: its backend and its outcomes."""

    under_test: BackendUnderTest
    suite: str
    distribution: str
    version: str
    tests: list[RuleTest]  # those collected, in order
    outcomes: list[TestOutcome] = attrs.field(factory=list)
    log: Log | None = None


@pytest.fixture(scope="class", name="wlk_run")
def _wlk_run(request: pytest.FixtureRequest) -> Iterator[_ClassRun]:
    """Find the backend that a class names; it is loaded when the first rule needs it."""
    from wlk_conformance.calls import Calls  # noqa: PLC0415 -- see above
    from wlk_conformance.events import CALLS, Log  # noqa: PLC0415 -- see above
    from wlk_conformance.loading import find_backend  # noqa: PLC0415 -- see above
    from wlk_conformance.rules import rule_of  # noqa: PLC0415 -- see above

    config, suite = request.config, request.cls
    events = config.getoption("--wlk-events")
    calls = Calls(Path(events).with_suffix(CALLS) if events else None)
    under_test, owner = find_backend(
        suite.backend or config.getoption("--wlk-backend") or "",
        model=suite.model or config.getoption("--wlk-model"),
        options=suite.options,
        pairs=config.getoption("--wlk-option"),
        tiers=[tier for tier in ("speech", "long") if config.getoption(f"--wlk-{tier}")],
        words=suite.words or config.getoption("--wlk-words"),
        rules=config.getoption("--wlk-rule"),
    )
    under_test.calls = calls
    _prepare_sessions(under_test, config)
    collected = [
        rule_of(item.function)
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.cls is suite
    ]
    class_run = _ClassRun(
        under_test=under_test,
        suite=suite.suite,
        distribution=owner.distribution,
        version=owner.version,
        tests=[test for test in collected if test is not None],
        log=Log(Path(events)) if events else None,
    )
    config.stash[_RUNS][suite] = class_run
    yield class_run
    under_test.close()
    _report_processes(class_run)


def _prepare_sessions(under_test: BackendUnderTest, config: pytest.Config) -> None:
    """Set what the options choose for generated sessions."""
    from wlk_conformance.sessions.session import Session  # noqa: PLC0415 -- see above

    under_test.seed = config.getoption("--wlk-seed")
    under_test.sessions = config.getoption("--wlk-sessions")
    if folder := config.getoption("--wlk-replays"):
        under_test.replays = Path(folder)
    if path := config.getoption("--wlk-replay"):
        under_test.replay = Session.from_json(Path(path).read_text(encoding="utf-8"))


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
    from wlk_conformance.runner import examine  # noqa: PLC0415 -- see above

    class_run = cast("_ClassRun", pyfuncitem.funcargs["wlk_run"])
    if class_run.log is not None:
        class_run.log.begin(declared)
    found: list[TestOutcome] = []

    def take_findings() -> None:
        found.extend(_new_findings(declared, class_run))

    class_run.under_test.at_finding = take_findings
    outcome = examine(declared, pyfuncitem.obj, class_run.under_test)
    take_findings()
    class_run.outcomes += [outcome, *found]
    if class_run.log is not None:
        if class_run.under_test.refusal is not None:
            class_run.log.refuse(str(class_run.under_test.refusal))
        class_run.log.end(outcome)
    for entry in found:
        _report_finding(entry, class_run)
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
        report = _report(class_run)
        terminalreporter.write_line(report.as_table(width=terminalreporter._tw.fullwidth))  # noqa: SLF001 -- pytest has no public name for it
        path = config.getoption("--wlk-report")
        if path:
            text = report.as_markdown() if path.endswith(".md") else report.as_json()
            Path(path).write_text(text, encoding="utf-8")


def _report_to_pytest(declared: RuleTest, outcome: TestOutcome, class_run: _ClassRun) -> None:
    from wlk_conformance.report import is_newer  # noqa: PLC0415 -- see above

    if outcome.status == "n/a":
        pytest.skip(f"n/a: {outcome.detail}")
    deviation = class_run.under_test.spec.deviations.get(declared.id)
    if outcome.status == "fail":
        if deviation is not None:
            pytest.xfail(f"deviation: {deviation}")
        if is_newer(declared.since, class_run.suite):
            pytest.xfail(f"advisory: new in suite {declared.since}, pinned to {class_run.suite}")
        pytest.fail(outcome.explanation or outcome.detail, pytrace=False)
    if deviation is not None and _is_stale(declared, class_run):
        pytest.fail(
            f"stale: {declared.id} holds; remove the declared deviation: {deviation}",
            pytrace=False,
        )


def _new_findings(declared: RuleTest, class_run: _ClassRun) -> list[TestOutcome]:
    """Return what monitors found since the last time, and note it at once."""
    from wlk_conformance.runner import findings  # noqa: PLC0415 -- see above

    found = findings(declared, class_run.under_test)
    if class_run.log is not None:
        for entry in found:
            class_run.log.end(entry)
    return found


def _report_finding(finding: TestOutcome, class_run: _ClassRun) -> None:
    """Fail the test in which a monitor found that another rule is broken, unless that is known."""
    from wlk_conformance.report import is_newer  # noqa: PLC0415 -- see above
    from wlk_conformance.rules import MONITORED_SINCE  # noqa: PLC0415 -- see above

    is_declared = finding.rule in class_run.under_test.spec.deviations
    if not is_declared and not is_newer(MONITORED_SINCE, class_run.suite):
        pytest.fail(finding.explanation or finding.detail, pytrace=False)


def _report_processes(class_run: _ClassRun) -> None:
    """Report the children that the backend left running when it was closed."""
    from wlk_conformance.runner import leaked_processes  # noqa: PLC0415 -- see above

    for outcome in leaked_processes(class_run.under_test):
        class_run.outcomes.append(outcome)
        if class_run.log is not None:
            class_run.log.end(outcome)
        _report_finding(outcome, class_run)


def _is_stale(declared: RuleTest, class_run: _ClassRun) -> bool:
    """Return, at the last test of a rule, whether all of them held."""
    of_rule = [test.name for test in class_run.tests if test.id == declared.id]
    outcomes = [outcome for outcome in class_run.outcomes if outcome.rule == declared.id]
    is_complete = {outcome.test for outcome in outcomes} >= set(of_rule)
    return is_complete and all(outcome.status != "fail" for outcome in outcomes)


def _report(class_run: _ClassRun) -> Any:
    from wlk_conformance.report import Report, judge_all  # noqa: PLC0415 -- see above

    under_test = class_run.under_test
    return Report(
        backend=under_test.spec.name,
        distribution=class_run.distribution,
        version=class_run.version,
        model=under_test.model or under_test.spec.default_model,
        options=under_test.options,
        suite=class_run.suite,
        rules=judge_all(
            class_run.tests,
            class_run.outcomes,
            deviations=under_test.spec.deviations,
            suite=class_run.suite,
        ),
        part=under_test.part,
    )


def _declared(item: pytest.Item) -> RuleTest | None:
    if not isinstance(item, pytest.Function):
        return None
    declared: RuleTest | None = getattr(item.function, "wlk_rule", None)
    return declared
