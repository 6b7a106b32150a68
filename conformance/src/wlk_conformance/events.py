"""The events of a run, on disk as they happen, so that a run that is cut short is reported too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from wlk_conformance.rules import TestOutcome

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_conformance.rules import RuleTest

__all__ = ["CALLS", "Events", "Log"]

CALLS = ".calls"  # the suffix of the record of calls beside the events


@attrs.frozen
class Log:
    """The writing side: one JSON line an event, on disk before the next thing happens."""

    path: Path

    def begin(self, test: RuleTest) -> None:
        """Note that a test begins."""
        self._write({"begin": test.id, "test": test.name})

    def end(self, outcome: TestOutcome) -> None:
        """Note the outcome of a test."""
        self._write({"end": attrs.asdict(outcome)})

    def refuse(self, reason: str) -> None:
        """Note that the backend could not be loaded, and its reason."""
        self._write({"refusal": reason})

    def _write(self, event: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")


@attrs.define
class Events:
    """The reading side; `read` takes what was written since the last call."""

    path: Path
    outcomes: list[TestOutcome] = attrs.field(factory=list, init=False)
    running: tuple[str, str] | None = attrs.field(default=None, init=False)  #: rule and test
    refusal: str | None = attrs.field(default=None, init=False)
    _offset: int = attrs.field(default=0, init=False)

    def read(self) -> bool:
        """Take in complete new lines; return whether there were any."""
        if not self.path.exists():
            return False
        with self.path.open("rb") as file:
            file.seek(self._offset)
            lines = file.read()
        complete = lines[: lines.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.splitlines():
            self._take(json.loads(line))
        return bool(complete)

    def _take(self, event: dict[str, Any]) -> None:
        if "begin" in event:
            self.running = (event["begin"], event["test"])
        elif "end" in event:
            outcome = TestOutcome(**event["end"])
            self.outcomes.append(outcome)
            if self.running is not None and outcome.test == self.running[1]:
                self.running = None
        else:
            self.refusal = event["refusal"]
