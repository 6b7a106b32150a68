"""Running one test of a rule: whatever a backend does becomes an outcome."""

from __future__ import annotations

from pathlib import Path
import traceback
from typing import TYPE_CHECKING

from wlk_conformance.rules import NotApplicable, TestOutcome
from wlk_conformance.subject import NotLoaded
from wlk_conformance.watchdog import Hung

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_conformance.rules import RuleTest, Status
    from wlk_conformance.subject import Subject
    from wlk_conformance.watchdog import Worker

__all__ = ["examine"]

FRAMES = 4  # innermost frames shown of an exception that no rule expects
TAPES = 3  # streams whose calls are shown


def examine(
    declared: RuleTest,
    test: Callable[[Subject], None],
    subject: Subject,
    *,
    worker: Worker | None = None,
    limit: float = 120.0,
) -> TestOutcome:
    """
    Run *test* on *subject* and return its outcome; never raises what a backend raises.

    With a *worker*, a test of which no call returns for *limit* seconds fails, and so do all tests
    that follow: the thread that hangs cannot be ended.
    """
    reason = _reason_not_to_run(declared, subject)
    if reason is not None:
        return reason

    def job() -> None:
        subject.begin_rule()
        try:
            _check_words_are_known(declared, subject)
            test(subject)
        finally:
            subject.end_rule()

    try:
        if worker is None:
            job()
        else:
            worker.run(job, limit=limit)
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- the suite's runner: any may come
        return _judged(declared, error, subject, limit=limit)
    return _outcome(declared, "pass", "; ".join(subject.notes))


def _reason_not_to_run(declared: RuleTest, subject: Subject) -> TestOutcome | None:
    if subject.hung_in is not None:
        return _outcome(declared, "fail", f"not reached: hung in {subject.hung_in}")
    if declared.tier not in subject.tiers:
        return _outcome(declared, "n/a", f"part of the {declared.tier} tier: --{declared.tier}")
    if declared.requires and not subject.has(declared.requires):
        lacks = f"{subject.spec.name} does not declare {declared.requires}"
        return _outcome(declared, "n/a", lacks)
    return None


def _judged(
    declared: RuleTest, error: BaseException, subject: Subject, *, limit: float
) -> TestOutcome:
    """Return what an exception that came out of a rule stands for."""
    if isinstance(error, NotApplicable):
        return _outcome(declared, "n/a", str(error))
    if isinstance(error, NotLoaded):
        return _outcome(declared, "fail", f"the backend could not be loaded: {error}")
    if isinstance(error, Hung):
        subject.hung_in = f"{declared.id} ({declared.name})"
        detail = f"hung: no call returned within {limit:g} s"
        return _failed(declared, detail, subject, after=f"it stands at\n{error}")
    if isinstance(error, AssertionError):
        detail = str(error) or "the assertion does not hold"
        return _failed(declared, detail, subject, after=_place(error, frames=1))
    detail = f"{type(error).__name__}: {error}"
    return _failed(declared, detail, subject, after=_place(error, frames=FRAMES))


def _check_words_are_known(declared: RuleTest, subject: Subject) -> None:
    needs_words = not {"G", "F"} & set(declared.kinds.split(","))
    if needs_words and not subject.material.knows_words:
        raise NotApplicable("needs known words: run with --model digits")


def _outcome(declared: RuleTest, status: Status, detail: str) -> TestOutcome:
    return TestOutcome(rule=declared.id, test=declared.name, status=status, detail=detail)


def _failed(declared: RuleTest, detail: str, subject: Subject, *, after: str) -> TestOutcome:
    parts = [f"{declared.id}  {declared.sentence}", f"came: {detail}"]
    if subject.recipes:
        parts.append("fed: " + "\n     ".join(subject.recipes))
    if subject.tapes:
        parts.append("calls:\n" + "\n".join(map(str, subject.tapes[-TAPES:])))
    if declared.causes:
        parts.append("usual causes:\n" + "\n".join(f"  - {cause}" for cause in declared.causes))
    parts.append(after)
    return TestOutcome(
        rule=declared.id,
        test=declared.name,
        status="fail",
        detail=_first_line(detail),
        explanation="\n".join(parts),
    )


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _place(error: BaseException, *, frames: int) -> str:
    summary: Sequence[traceback.FrameSummary] = traceback.extract_tb(error.__traceback__)[-frames:]
    places = [f"{Path(frame.filename).name}:{frame.lineno}, in {frame.name}" for frame in summary]
    return "at " + "\n   ".join(places)
