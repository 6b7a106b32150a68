"""
Generate parts of the documentation while mkdocs builds it, and write every page as Markdown too.

A page marks each generated part with a comment such as `<!-- options -->`: options come from the
installed plugins, rules and faulty backends from the suite.  The Markdown of each page is written
beside its HTML, and llms.txt lists the pages (https://llmstxt.org).
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any

from wlk_conformance.rules import rule_tests
from wlk_conformance.suite import BackendConformance
from wlk_core.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_conformance.rules import RuleTest
    from wlk_core.backend import BackendSpec
    from wlk_core.options import Option

ROOT = Path(__file__).resolve().parents[1]
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
_pages: dict[str, tuple[str, str]] = {}  # title and Markdown of each source file


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the Markdown of a page with its generated parts filled in."""
    for name, generated in GENERATED.items():
        marker = f"<!-- {name} -->"
        if marker in markdown:
            markdown = markdown.replace(marker, generated())
    _pages[page.file.src_uri] = page.title, markdown
    return markdown


def on_post_build(config: Any, **_: Any) -> None:
    """Write the Markdown of every page, and llms.txt, into the site."""
    site = Path(config["site_dir"])
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}", "", "## Pages", ""]
    for source, (title, markdown) in sorted(_pages.items()):
        (site / source).write_text(markdown, encoding="utf-8")
        lines.append(f"- [{title}]({source})")
    (site / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


def rules_text(tests: Iterable[RuleTest]) -> str:
    """Return a section for each family of rules; the first sentence of a rule's test states it."""
    lines: list[str] = []
    known: set[str] = set()
    for family, members in groupby(tests, key=lambda test: test.id.partition("-")[0]):
        lines += [f"## {family}: {FAMILIES[family]}", ""]
        for test in members:
            marks = [test.kinds.replace(",", ", ")]
            marks += [f"{test.tier} tier"] if test.tier != "contract" else []
            marks += [f"needs `{test.requires}`"] if test.requires else []
            marks += [f"since {test.since}"] if test.since != "1.0" else []
            text = f"[{'; '.join(marks)}] {test.sentence}"
            lines.append(f"  - {text}" if test.id in known else f"- **{test.id}** {text}")
            known.add(test.id)
        lines.append("")
    return "\n".join(lines)


def backend_rules() -> str:
    """Return the rules of backends."""
    order = list(FAMILIES)
    tests = [declared for declared, _ in rule_tests(BackendConformance)]
    return rules_text(sorted(tests, key=lambda test: order.index(test.id.partition("-")[0])))


def option_row(option: Option) -> str:
    """Return the table row of an option."""
    auto = ["`auto`"] if option.is_auto_allowed else []
    if option.choices:
        values = ", ".join([*auto, *(f"`{choice}`" for choice in option.choices)])
    else:
        bounds = [f"{b:g}" for b in (option.minimum, option.maximum) if b is not None]
        kind = option.type.__name__ + (f", {' to '.join(bounds)}" if bounds else "")
        values = " or ".join([kind, *auto])
    policies = ", ".join(f"`{policy}`" for policy in option.policies)
    text = option.help + (f" (policy {policies})" if policies else "")
    return f"| `{option.name}` | {option.scope} | {values} | `{option.default_text}` | {text} |"


def backend_section(spec: BackendSpec) -> str:
    """Return the section about a backend."""
    models = ", ".join(f"`{alias}`" for alias in spec.models) or "a directory or an address"
    lines = [f"## {spec.name}", "", f"{spec.summary}.", ""]
    lines += ["| option | scope | values | default | meaning |", "|---|---|---|---|---|"]
    lines += map(option_row, spec.all_options)
    return "\n".join([*lines, "", f"Models: {models}; default `{spec.default_model}`.", ""])


def options() -> str:
    """Return a section about each installed backend of this project."""
    ours = {path.name for path in (ROOT / "plugins").iterdir()}
    specs = [
        spec
        for plugin in Registry().plugins()
        if plugin.distribution in ours
        for spec in plugin.backends
    ]
    return "\n".join(map(backend_section, sorted(specs, key=lambda spec: spec.name)))


def faulty_backends() -> str:
    """Return the number of faulty backends by rule, and a row for each of them."""
    sys.path.insert(0, str(ROOT / "conformance/tests"))  # the package faulty_backends
    from faulty_backends.base import faulty_cases  # noqa: PLC0415 -- needs the path above

    cases = list(faulty_cases())
    detectors = ("its rule alone", "tests", "sessions")
    rules = list(dict.fromkeys(declared.id for declared, _ in rule_tests(BackendConformance)))
    count = Counter((case.rule, case.detector) for case in cases)
    lines = [f"{len(cases)} faulty backends.", "", "## By rule", ""]
    lines.append("| Rule | Faulty backends | By its rule alone | By tests | In sessions |")
    lines.append("|---|---|---|---|---|")
    for rule in rules:
        if rule != NEVER_JUDGED:
            numbers = [count[rule, detector] for detector in detectors]
            lines.append(f"| {rule} | {sum(numbers)} | {' | '.join(map(str, numbers))} |")
    lines += ["", "## By fault", "", "| Rule | Backend | Detected by | Fault |"]
    lines.append("|---|---|---|---|")
    for case in sorted(cases, key=lambda case: (rules.index(case.rule), case.name)):
        row = (case.rule, case.name, case.detector, case.sentence)
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


GENERATED = {
    "faulty backends": faulty_backends,
    "options": options,
    "rules": backend_rules,
}
