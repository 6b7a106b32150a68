"""Print the table of faulty backends: python table.py > README.md, in this folder."""

from __future__ import annotations

from pathlib import Path
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from faulty_backends.base import FaultyCase

__all__ = ["table"]

HEAD = """# Faulty backends

Each of these backends breaks one rule of [the contract](../../../docs/contract.md).  A test runs
the suite on every faulty backend: it must fail by that rule and by no other.  This page is printed
by `python conformance/tests/faulty_backends/table.py`.  [All faulty backends by
rule](../../../docs/faulty-backends.md) lists those of catalogue.py as well, which may break several
rules.

| Rule | Backend | Fault |
|---|---|---|
"""

SESSIONS = """
## Late and rare faults

Each of these breaks a rule late in a stream or on rare input, or hides it from its counters.
Sessions drawn from each of three seeds, and what the suite measures by itself, must detect it under
its rule.

| Rule | Backend | Fault |
|---|---|---|
"""


def table() -> str:
    """Return the page, in Markdown."""
    from faulty_backends.base import (  # noqa: PLC0415 -- found through the path below
        all_cases,
        session_cases,
    )

    return HEAD + _rows(all_cases()) + SESSIONS + _rows(session_cases())


def _rows(cases: Iterable[FaultyCase]) -> str:
    return "".join(f"| {case.rule} | {case.name} | {case.sentence} |\n" for case in cases)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    sys.stdout.write(table())
