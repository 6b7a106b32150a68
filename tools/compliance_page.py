"""Print docs/compliance.md: python tools/compliance_page.py REPORT.json..."""

from __future__ import annotations

from collections import Counter
import json
from pathlib import Path
import sys
from typing import Any

HEAD = """# Compliance

How the backends of this repository keep [the contract](contract.md), in the contract and the speech
tier of suite {suite}. `nox -s pages -- compliance --write` writes this page from the JSON reports
of `wlk-conformance`, and `nox -s pages -- compliance` checks that it is current.

A rule is not tested if it is about a capability that the backend does not declare, or if the suite
cannot test it on that backend.

| Backend | Verdict | Rules tested | Passed | Deviations | Not declared | Not testable |
|---|---|---|---|---|---|---|
"""
EXCEPTIONS = """
## Rules that were not tested, deviate or fail

Every rule that is not listed here passed on every backend.

| Rule | Outcome | Backends | Reason |
|---|---|---|---|
"""
ORDER = ("fail", "stale", "deviation", "advisory", "n/a")  # order of a rule's rows, by outcome


def compliance_page(reports: list[dict[str, Any]]) -> str:
    """
    Return the page as Markdown: a row for each report, and a table of the exceptions.

    Nothing in it depends on the machine.  Backends with the same title are distinguished by
    `proof`, the name of the report.

    Raises:
        ValueError: there is no report, or the reports are of different suites.

    """
    suites = {report["suite"] for report in reports}
    if len(suites) != 1:
        raise ValueError(
            f"expected reports of one suite, got {', '.join(sorted(suites)) or 'no report'}"
        )
    reports = _titled(reports)
    summary = [_summary(report) for report in reports]
    exceptions = _exceptions(reports)
    return "".join(
        [HEAD.format(suite=suites.pop()), *summary, EXCEPTIONS if exceptions else "", *exceptions]
    )


def _summary(report: dict[str, Any]) -> str:
    count = Counter(rule["outcome"] for rule in report["rules"])
    tested = len(report["rules"]) - count["n/a"]
    verdict = report["verdict"] if report["verdict"] == "compliant" else f"**{report['verdict']}**"
    cells = (report["title"], verdict, f"{tested} of {len(report['rules'])}", count["pass"])
    absent = len(report["not_tested"]["not declared"])
    return _row(*cells, count["deviation"], absent, count["n/a"] - absent)


def _exceptions(reports: list[dict[str, Any]]) -> list[str]:
    """Return a row for each rule, outcome and reason but passes, in the order of the contract."""
    backends: dict[tuple[str, str, str], list[str]] = {}
    rules: dict[str, int] = {}
    for report in reports:
        for rule in report["rules"]:
            rules.setdefault(rule["id"], len(rules))
            if rule["outcome"] != "pass":
                key = (rule["id"], rule["outcome"], _reason(rule, report))
                backends.setdefault(key, []).append(report["title"])
    rows = []
    for rule, outcome, reason in sorted(
        backends, key=lambda key: (rules[key[0]], ORDER.index(key[1]))
    ):
        names = backends[rule, outcome, reason]
        shown_names = "all" if len(names) == len(reports) else ", ".join(names)
        is_expected = outcome in ("n/a", "deviation", "advisory")
        rows.append(_row(rule, outcome if is_expected else f"**{outcome}**", shown_names, reason))
    return rows


def _reason(rule: dict[str, Any], report: dict[str, Any]) -> str:
    """Return the reason without the backend's name and measurements, so that equal ones merge."""
    reason = str(rule["detail"]).split("; measured:")[0].strip()
    return reason.removeprefix(f"{report['backend']} ")


def _titled(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the reports, each with its `title`."""
    count = Counter(_title(report) for report in reports)
    titled = []
    for report in reports:
        title = _title(report)
        if count[title] > 1:
            title = f"{title} ({report['proof']})"
        titled.append({**report, "title": title})
    return titled


def _title(report: dict[str, Any]) -> str:
    """Return the backend, with its policy and engine if they were chosen."""
    options = report["options"]
    chosen = [options[name] for name in ("policy", "engine") if options.get(name)]
    return " ".join([f"`{report['backend']}`", *chosen])


def _row(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit("expected reports of wlk-conformance, got none; write one with --report PATH")
    loaded = [
        {**json.loads(path.read_text(encoding="utf-8")), "proof": path.stem}
        for path in map(Path, sys.argv[1:])
    ]
    sys.stdout.write(compliance_page(loaded))
