"""
One page that compares the reports of several backends, rule by rule.

``python -m wlk_conformance.compliance REPORT.json... > docs/compliance.md``
"""

from __future__ import annotations

import json
from pathlib import Path
import sys
from typing import Any

__all__ = ["compliance_page", "run"]

HEAD = """# Compliance

What the backends of this repository come to under [the contract](contract.md), both tiers, suite
{suite}.  Written by `nox -s compliance -- --write` from the JSON reports of `wlk-conformance`;
`nox` checks that it is current.
"""
ACCEPTED = ("pass", "n/a", "deviation", "advisory")  # the others stand out


def compliance_page(reports: list[dict[str, Any]]) -> str:
    """
    Return the page in Markdown: a row for each rule, a column for each report.

    Nothing in it depends on the machine.  Reasons for what is not judged or deviates stand below.

    Raises:
        ValueError: there is no report, or reports of different suites.

    """
    suites = {report["suite"] for report in reports}
    if len(suites) != 1:
        raise ValueError(
            f"expected reports of one suite, got {', '.join(sorted(suites)) or 'none'}"
        )
    names = [_title(report) for report in reports]
    outcomes = [{rule["id"]: rule for rule in report["rules"]} for report in reports]
    rules = {rule["id"]: rule["sentence"] for report in reports for rule in report["rules"]}
    lines = [
        HEAD.format(suite=suites.pop()),
        "| rule | " + " | ".join(names) + " | |",
        "|---" * (len(names) + 2) + "|",
        "| | " + " | ".join(f"**{report['verdict']}**" for report in reports) + " | |",
    ]
    for rule, sentence in rules.items():
        cells = [_sign(found.get(rule)) for found in outcomes]
        lines.append(f"| {rule} | {' | '.join(cells)} | {_short(sentence)} |")
    lines += ["", "Not judged, or declared otherwise:", ""]
    for name, found in zip(names, outcomes, strict=True):
        for outcome in ("n/a", "deviation", "advisory"):
            reasons: dict[str, list[str]] = {}
            for rule in found.values():
                if rule["outcome"] == outcome:
                    reason = rule["detail"].split("; measured:")[0].strip()
                    reasons.setdefault(reason, []).append(rule["id"])
            lines += [
                f"- {name}: {', '.join(ids)} {outcome}: {reason}" for reason, ids in reasons.items()
            ]
    return "\n".join([*lines, ""])


def run() -> None:
    """Print the page of the reports named on the command line."""
    if len(sys.argv) == 1:
        sys.exit("expected reports of wlk-conformance, got none; write one with --report PATH")
    reports = [json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[1:]]
    sys.stdout.write(compliance_page(reports))


def _title(report: dict[str, Any]) -> str:
    """Return the backend, and its policy and engine where one was chosen."""
    options = report["options"]
    chosen = [options[name] for name in ("policy", "engine") if options.get(name)]
    return " ".join([f"`{report['backend']}`", *chosen])


def _sign(rule: dict[str, Any] | None) -> str:
    if rule is None:
        return "-"
    outcome = str(rule["outcome"])
    return outcome if outcome in ACCEPTED else f"**{outcome}**"


def _short(sentence: str) -> str:
    return sentence.split(". ", maxsplit=1)[0].rstrip(".").replace("|", "\\|")


if __name__ == "__main__":
    run()
