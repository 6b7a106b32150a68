"""Calls that hang or end the process: whose rule they break, and what was printed last."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from wlk_conformance.rules import TestOutcome, rule_test

if TYPE_CHECKING:
    from wlk_conformance.calls import CallRecord
    from wlk_conformance.rules import RuleTest

__all__ = ["Stop", "last_lines", "not_judged", "rule_of_call"]

RULES_OF_CALLS = {
    "create_processor": "LIFE-01", "warmup": "LIFE-09", "has_backlog": "TIME-03",
    "insert_audio_chunk": "IN-04", "get_buffer": "HYP-01", "process_iter": "IN-05",
    "is_last": "LIFE-07", "start_silence": "SIL-01", "end_silence": "SIL-03",
    "new_speaker": "SPK-01", "finish": "LIFE-02", "reset": "LIFE-06", "close": "LIFE-10",
    "stats": "RES-02",
}  # fmt: skip
LINES = 8  # of what the backend printed last
FRAMES = 6  # innermost frames of a thread that ended the process
FAULT = re.compile(r"(Fatal Python error|Windows fatal exception|Thread 0x|Current thread 0x)")
FRAME = re.compile(r'  File "(?P<file>[^"]*)"')
RUNNERS = ("/_pytest/", "/pluggy/", "/wlk_conformance/", "/pytest/", "/threading.py")


def rule_of_call(call: str, default: str) -> str:
    """Return the rule that a call breaks that does not return, *default* for no or another call."""
    return RULES_OF_CALLS.get(call, default)


@attrs.frozen(kw_only=True)
class Stop:
    """
    The end of a process of the suite in a test.

    Attributes:
        ended: how it ended, "hung" or with a status.
        running: the call that ran.
        rule: of the test.
        test: its name.
        scene: the test in words.

    """

    ended: str
    running: CallRecord
    rule: str
    test: str
    scene: str

    @property
    def broken(self) -> str:
        """The rule that is broken."""
        return rule_of_call(self.running.call, self.rule)

    def outcome(self, printed: str) -> TestOutcome:
        """Return the failure of the rule, with what was *printed* last."""
        call = self.running
        detail = f"{self.ended} in {call}" if call.call else self.ended
        declared = rule_test(self.broken)
        lines = [
            f"{declared.id}  {declared.sentence}",
            f"result: in {self.scene}: {detail}",
            *last_lines(printed),
        ]
        return TestOutcome(
            rule=self.broken,
            test=self.test if self.broken == self.rule else f"stop in {call.call}",
            status="fail",
            detail=detail,
            explanation="\n".join(lines),
            is_hung=True,
        )


def not_judged(declared: RuleTest, stop: TestOutcome) -> TestOutcome:
    """Return the outcome of a test in which a call stopped that breaks another rule."""
    how = "hung" if stop.detail.startswith("hung") else "ended the process"
    return TestOutcome(
        rule=declared.id,
        test=declared.name,
        status="fail",
        detail=f"not judged: {stop.test.removeprefix('stop in ')} {how}, see {stop.rule}",
        is_reached=False,
    )


def last_lines(printed: str) -> list[str]:
    """
    Return what a process printed last: lines of the backend, then the stack where it ended.

    Frames of what runs the tests are left out.
    """
    lines = printed.splitlines()
    first = next((i for i, line in enumerate(lines) if FAULT.match(line)), len(lines))
    own = [line for line in lines[:first] if line.strip()]
    heads = [line for line in lines[first:] if line.startswith(("Fatal", "Windows fatal"))]
    current = next((i for i, s in enumerate(lines) if s.startswith("Current thread")), len(lines))
    frames = []
    for line in lines[current + 1 :]:
        found = FRAME.match(line)
        if found is None:
            break
        if not any(runner in found["file"].replace("\\", "/") for runner in RUNNERS):
            frames.append(line)
    return [*own[-LINES:], *heads, *frames[:FRAMES]]
