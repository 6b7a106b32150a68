"""Print the table of faulty backends: python table.py > README.md, in this folder."""

from __future__ import annotations

from pathlib import Path
import sys

__all__ = ["table"]

HEAD = """# Faulty backends

Each of these backends breaks one rule of [the contract](../../../docs/contract.md).  A test runs
the suite on every faulty backend: it must fail by that rule and by no other.  This page is printed
by `python conformance/tests/faulty_backends/table.py`.

| Rule | Backend | Fault |
|---|---|---|
"""


def table() -> str:
    """Return the page, in Markdown."""
    from faulty_backends.base import all_cases  # noqa: PLC0415 -- found through the path below

    rows = [f"| {case.rule} | {case.name} | {case.sentence} |\n" for case in all_cases()]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    sys.stdout.write(table())
