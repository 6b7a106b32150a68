"""
Write the rules into docs/contract.md and the faults of the suite's tests into faulty-backends.md.

    python tools/contract_pages.py [--check]

Each page has a pair of comments such as `<!-- rules -->` and `<!-- end of rules -->`, and the text
between them is replaced.  With --check nothing is written, and the status is 1 if a page is out of
date.
"""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import groupby
from pathlib import Path
import sys

from wlk_conformance.rules import rule_tests
from wlk_conformance.suite import BackendConformance

ROOT = Path(__file__).resolve().parents[1]
COMMAND = "nox -s pages -- --write"
FAMILIES = {
    "PKG": "packaging and options",
    "IN": "audio in",
    "COM": "committed text",
    "HYP": "the hypothesis",
    "TIME": "times",
    "SIL": "silence",
    "SPK": "speakers",
    "LANG": "languages",
    "LIFE": "life cycle",
    "ISO": "sharing one model",
    "ERR": "failure",
    "RES": "resources, counted and not timed",
    "QUAL": "quality on known speech",
}
NEVER_JUDGED = "QUAL-03"


def rules() -> str:
    """Return a section for each family of rules; the first test of a rule states it."""
    order = list(FAMILIES)
    tests = [declared for declared, _ in rule_tests(BackendConformance)]
    tests.sort(key=lambda test: order.index(test.id.partition("-")[0]))
    lines: list[str] = []
    known: set[str] = set()
    for family, members in groupby(tests, key=lambda test: test.id.partition("-")[0]):
        lines += ["", f"### {family}: {FAMILIES[family]}", ""]
        for test in members:
            marks = [test.kinds.replace(",", ", ")]
            if test.tier != "contract":
                marks.append(f"{test.tier} tier")
            if test.requires:
                marks.append(f"needs `{test.requires}`")
            if test.since != "1.0":
                marks.append(f"since {test.since}")
            text = f"[{'; '.join(marks)}] {test.sentence}"
            lines.append(f"  - {text}" if test.id in known else f"- **{test.id}** {text}")
            known.add(test.id)
    return "\n".join(lines[1:])


def faulty_backends() -> str:
    """Return the number of faulty backends by rule, and a row for each of them."""
    sys.path.insert(0, str(ROOT / "conformance/tests"))  # the package faulty_backends
    from faulty_backends.base import faulty_cases  # noqa: PLC0415 -- needs the path above

    cases = list(faulty_cases())
    detectors = ("its rule alone", "tests", "sessions")
    order = list(dict.fromkeys(declared.id for declared, _ in rule_tests(BackendConformance)))
    count = Counter((case.rule, case.detector) for case in cases)
    lines = [f"{len(cases)} faulty backends.", "", "## By rule", ""]
    lines.append("| Rule | Faulty backends | By its rule alone | By tests | In sessions |")
    lines.append("|---|---|---|---|---|")
    for rule in order:
        if rule != NEVER_JUDGED:
            numbers = [count[rule, detector] for detector in detectors]
            lines.append(f"| {rule} | {sum(numbers)} | {' | '.join(map(str, numbers))} |")
    lines += ["", "## By fault", "", "| Rule | Backend | Detected by | Fault |"]
    lines.append("|---|---|---|---|")
    for case in sorted(cases, key=lambda case: (order.index(case.rule), case.name)):
        row = (case.rule, case.name, case.detector, case.sentence)
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


PAGES = {
    "docs/contract.md": ("rules", rules),
    "docs/faulty-backends.md": ("faulty backends", faulty_backends),
}


def outdated() -> dict[str, str]:
    """Return the current text of each page that is out of date."""
    texts = {}
    for page, (name, generated) in PAGES.items():
        text = (ROOT / page).read_text(encoding="utf-8")
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        head, _, rest = text.partition(begin)
        _, is_complete, tail = rest.partition(end)
        if not is_complete:
            sys.exit(f"{page}: expected the line {begin.strip()}, and below it {end.strip()}")
        current = f"{head}{begin}\n{generated()}\n\n{end}{tail}"
        if current != text:
            texts[page] = current
    return texts


def main() -> None:
    """Write the pages that are out of date, or end with status 1 if there is one."""
    parser = argparse.ArgumentParser(description="Write the generated parts of two pages.")
    parser.add_argument("--check", action="store_true", help="write nothing")
    is_check = parser.parse_args().check
    pages = outdated()
    if is_check and pages:
        sys.exit(f"{' and '.join(pages)}: out of date; run: {COMMAND}")
    for page, text in pages.items():
        (ROOT / page).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
