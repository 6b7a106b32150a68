"""Write docs/faulty-backends.md from the tests of the suite: tools/faulty_backends_page.py."""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
import sys

from wlk_conformance.rules import rule_tests
from wlk_conformance.suite import BackendConformance

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "faulty-backends.md"
MUTATION = ROOT / "tools" / "mutation" / "sample.md"
sys.path.insert(0, str(ROOT / "conformance" / "tests"))  # the package faulty_backends

from faulty_backends.base import faulty_cases  # noqa: E402 -- found through the path

ALONE, TESTS, SESSIONS = "its rule alone", "tests", "sessions"
NEVER_JUDGED = "QUAL-03"
HEAD = """\
# Faulty backends

Each of these backends breaks a rule of [the contract](contract.md), and the suite detects every one
under that rule: a test in `conformance/tests` fails where it does not. This page is written by
`python tools/faulty_backends_page.py`, and a test checks that it is current.

A backend is detected by *its rule alone* (the tests of all rules run on it, and no other rule
fails), by the *tests* of its rule (other rules may fail as well), or in *sessions* drawn from each
of the seeds 0, 1 and 2. QUAL-03 measures and judges nothing, so that no backend breaks it.
"""


def page() -> str:
    """Return the page, in Markdown."""
    rows = [(case, case.kind, case.detector) for case in faulty_cases()]
    rules = list(dict.fromkeys(declared.id for declared, _ in rule_tests(BackendConformance)))
    count = Counter((case.rule, how) for case, _, how in rows)
    classes = Counter(kind for _, kind, _ in rows)
    total = ", ".join(f"{number} {kind}" for kind, number in classes.most_common())
    lines = [HEAD, f"{len(rows)} faulty backends: {total}.", "", "## By rule", ""]
    lines += ["| Rule | Faulty backends | By its rule alone | By tests | In sessions |",
              "|---|---|---|---|---|"]  # fmt: skip
    for rule in rules:
        if rule != NEVER_JUDGED:
            numbers = [count[rule, how] for how in (ALONE, TESTS, SESSIONS)]
            lines.append(f"| {rule} | {sum(numbers)} | {' | '.join(map(str, numbers))} |")
    lines += ["", "## By fault", "", "| Rule | Backend | Class | Detected by | Fault |",
              "|---|---|---|---|---|"]  # fmt: skip
    for case, kind, how in sorted(rows, key=lambda row: (rules.index(row[0].rule), row[0].name)):
        lines.append(f"| {case.rule} | {case.name} | {kind} | {how} | {case.sentence} |")
    return "\n".join([*lines, "", MUTATION.read_text(encoding="utf-8")])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=PAGE)
    parser.parse_args().output.write_text(page(), encoding="utf-8")
