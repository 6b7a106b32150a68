"""The pytest side: options, fixtures, and rules that become tests with a report at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wlk_conformance.events import Log
    from wlk_conformance.rules import RuleTest, TestOutcome
    from wlk_conformance.subject import Subject
    from wlk_conformance.watchdog import Worker

# Imported by every pytest run of an environment that has the suite: what is heavier than that is
# imported by the functions below, which only run where there are rules.
pytest.register_assert_rewrite("wlk_conformance.suite")


_BENCHES = pytest.StashKey["dict[type, _Bench]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that ``wlk-conformance`` passes on."""
    group = parser.getgroup("wlk-conformance", "the contract of streaming speech backends")
    group.addoption("--wlk-backend", metavar="NAME", help="judge this installed backend")
    group.addoption("--wlk-model", metavar="REF", help="the model to load")
    group.addoption("--wlk-option", metavar="KEY=VALUE", action="append", default=[])
    group.addoption("--wlk-speech", action="store_true", help="run the speech tier too")
    group.addoption("--wlk-long", action="store_true", help="run the long tier too")
    group.addoption("--wlk-report", metavar="PATH", help="write the report as JSON")
    group.addoption("--wlk-events", metavar="PATH", help="write down each test as it happens")
    group.addoption(
        "--wlk-time-limit",
        metavar="SECONDS",
        type=float,
        default=120.0,
        help="after which a call that does not return is given up (default: 120)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker and the bookkeeping."""
    config.addinivalue_line("markers", "wlk_rule(id): a rule of the contract of wlk backends")
    config.stash[_BENCHES] = {}


@attrs.define(eq=False)
class _Bench:
    """One class of rules in progress: its subject, the thread that runs it, what came of it."""

    subject: Subject
    worker: Worker
    suite: str
    distribution: str
    version: str
    tests: list[RuleTest]  # those collected, in order
    outcomes: list[TestOutcome] = attrs.field(factory=list)
    log: Log | None = None


@pytest.fixture(scope="class", name="wlk_bench")
def _wlk_bench(request: pytest.FixtureRequest) -> Iterator[_Bench]:
    """Find the backend that a class names; it is loaded when the first rule needs it."""
    from wlk_conformance.bench import open_subject  # noqa: PLC0415 -- see above
    from wlk_conformance.events import Log  # noqa: PLC0415 -- see above
    from wlk_conformance.rules import rule_of  # noqa: PLC0415 -- see above
    from wlk_conformance.watchdog import Worker  # noqa: PLC0415 -- see above

    config, suite = request.config, request.cls
    worker = Worker()
    subject, owner = open_subject(
        suite.backend or config.getoption("--wlk-backend") or "",
        model=suite.model or config.getoption("--wlk-model"),
        options={**_given_options(config), **suite.options},
        tiers=[tier for tier in ("speech", "long") if config.getoption(f"--wlk-{tier}")],
        touch=worker.touch,
    )
    collected = [
        rule_of(item.function)
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.cls is suite
    ]
    events = config.getoption("--wlk-events")
    bench = _Bench(
        subject=subject,
        worker=worker,
        suite=suite.suite,
        distribution=owner.distribution,
        version=owner.version,
        tests=[test for test in collected if test is not None],
        log=Log(Path(events)) if events else None,
    )
    config.stash[_BENCHES][suite] = bench
    yield bench
    if subject.hung_in is None:
        worker.run(subject.close, limit=config.getoption("--wlk-time-limit"))
        worker.close()


@pytest.fixture(name="wlk")
def _wlk(wlk_bench: _Bench) -> Subject:
    """Return the backend under test."""
    return wlk_bench.subject


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that are rules."""
    declared = _declared(item)
    if declared is not None:
        item.add_marker(pytest.mark.wlk_rule(declared.id))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a rule beside the main thread, and tell pytest what came of it."""
    declared = _declared(pyfuncitem)
    if declared is None:
        return None
    from wlk_conformance.runner import examine  # noqa: PLC0415 -- see above

    bench = cast("_Bench", pyfuncitem.funcargs["wlk_bench"])
    if bench.log is not None:
        bench.log.begin(declared)
    outcome = examine(
        declared,
        pyfuncitem.obj,
        bench.subject,
        worker=bench.worker,
        limit=pyfuncitem.config.getoption("--wlk-time-limit"),
    )
    bench.outcomes.append(outcome)
    if bench.log is not None:
        if bench.subject.refusal is not None:
            bench.log.refuse(str(bench.subject.refusal))
        bench.log.end(outcome)
    _tell(declared, outcome, bench)
    return True


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table of every class of rules, and write the report of the last one."""
    for bench in config.stash[_BENCHES].values():
        report = _report(bench)
        terminalreporter.write_line(report.as_table(width=terminalreporter._tw.fullwidth))  # noqa: SLF001 -- pytest offers no other way to learn it
        path = config.getoption("--wlk-report")
        if path:
            Path(path).write_text(report.as_json(), encoding="utf-8")


def _tell(declared: RuleTest, outcome: TestOutcome, bench: _Bench) -> None:
    from wlk_conformance.report import is_newer  # noqa: PLC0415 -- see above

    if outcome.status == "n/a":
        pytest.skip(f"n/a: {outcome.detail}")
    deviation = bench.subject.spec.deviations.get(declared.id)
    if outcome.status == "fail":
        if deviation is not None:
            pytest.xfail(f"deviation: {deviation}")
        if is_newer(declared.since, bench.suite):
            pytest.xfail(f"advisory: new in suite {declared.since}, pinned to {bench.suite}")
        pytest.fail(outcome.explanation or outcome.detail, pytrace=False)
    if deviation is not None and _is_stale(declared, bench):
        pytest.fail(
            f"stale: {declared.id} holds; remove the declared deviation: {deviation}",
            pytrace=False,
        )


def _is_stale(declared: RuleTest, bench: _Bench) -> bool:
    """Tell, at the last test of a rule, whether none of them failed."""
    of_rule = [test.name for test in bench.tests if test.id == declared.id]
    came = [outcome for outcome in bench.outcomes if outcome.rule == declared.id]
    return len(came) == len(of_rule) and all(outcome.status != "fail" for outcome in came)


def _report(bench: _Bench) -> Any:
    from wlk_conformance.report import Report, judge_all  # noqa: PLC0415 -- see above

    subject = bench.subject
    return Report(
        backend=subject.spec.name,
        distribution=bench.distribution,
        version=bench.version,
        model=subject.model or subject.spec.default_model,
        options=subject.options,
        suite=bench.suite,
        rules=judge_all(
            bench.tests,
            bench.outcomes,
            deviations=subject.spec.deviations,
            suite=bench.suite,
        ),
    )


def _declared(item: pytest.Item) -> RuleTest | None:
    if not isinstance(item, pytest.Function):
        return None
    declared: RuleTest | None = getattr(item.function, "wlk_rule", None)
    return declared


def _given_options(config: pytest.Config) -> dict[str, str]:
    pairs = [text.partition("=") for text in config.getoption("--wlk-option")]
    return {name: value for name, _, value in pairs}
