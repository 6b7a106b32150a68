"""Write docs/contract.md from the rules of the suite: python tools/contract_page.py."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from wlk_conformance.rules import SUITE_VERSION, rule_tests
from wlk_conformance.suite import BackendConformance

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_conformance.rules import RuleTest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "contract.md"
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
HEAD = f"""\
# The contract of an online processor

The rules that every backend keeps, suite {SUITE_VERSION}. `wlk-conformance BACKEND` checks each
rule by its id. This page is written by `python tools/contract_page.py`, and a test checks that it
is current.

- *Stream clock*: seconds from the start of the stream, silence included.
- *A*: the end of the audio inserted so far, on that clock.
- *EPS*: 0.02 s, the difference allowed between a caller's clock and the sample count.
- *Drained*: `process_iter` was called until `processed_up_to` stopped.
- *Committed* tokens are final. The *hypothesis* is the text of `get_buffer()` and may change.
- A *flush* is `start_silence`, `new_speaker`, `finish` or `process_iter(is_last=True)`.

The *contract* tier runs by default, needs no network and takes a minute or two on a small model.
The *speech* tier (`--speech`) feeds known words, and the *long* tier (`--long`) an hour of audio.
A rule is judged on any model (G), on a scripted engine with exactly known words and times (O), with
faults on demand (F) or on known speech (S). Where a rule has several tests, the first sentence is
the rule. A rule that cannot be tested on a backend is `n/a`, with the reason.

A monitor checks every stream of every test, and sessions drawn from a seed (`--seed`, `--sessions`)
play the whole protocol. What they find fails under the rule that is broken.

A backend that cannot keep a rule declares it in its `BackendSpec.deviations`, with the reason. A
deviation from a rule that holds is *stale* and fails.

[Faulty backends](faulty-backends.md) lists what the suite was proven to detect. It judges calls and
what they return, so that some violations cannot be detected from outside:

- Counters of work and of state are believed, except that engine calls and the memory that Python
  allocates are counted as well. Work inside one engine call, detokenised ids and memory of a
  framework or a device are what the backend reports (RES-01, RES-02, RES-04).
- A model is compared by its modules, hooks and names of parameters and not by the values of its
  weights (ISO-04), and text and times are judged, not how an engine came to them (TIME-05).
- An engine call that the backend does not pass through the seam `engine_calls` is not counted and
  cannot be made to fail or wait (IN-04, HYP-01, LIFE-03, LIFE-05, ISO-02, ERR).
- Where a buffer is cut, how long it is within its bound, which tick `auto` chooses, and the wording
  of messages and logs are not judged as long as every word comes at its time.
- A fault that begins after more pauses, minutes, streams or failures than the tests and sessions
  contain is not detected; `--sessions`, `--seed` and `--long` play more of them.
- A chunk size, a backlog or a pause that explains the same loss can be reported under the rule of
  either, because the smallest session that fails decides.
"""


def page() -> str:
    """Return the page, in Markdown."""
    tests = [declared for declared, _ in rule_tests(BackendConformance)]
    families = dict.fromkeys(test.family for test in tests)
    sections = [
        _section(family, [test for test in tests if test.family == family]) for family in families
    ]
    return "\n".join([HEAD, *sections])


def _section(family: str, tests: Iterable[RuleTest]) -> str:
    lines = [f"## {family}: {FAMILIES[family]}", ""]
    known: set[str] = set()
    for test in tests:
        marks = [test.kinds.replace(",", ", ")]
        marks += [f"{test.tier} tier"] if test.tier != "contract" else []
        marks += [f"needs `{test.requires}`"] if test.requires else []
        marks += [f"since {test.since}"] if test.since != "1.0" else []
        text = f"[{'; '.join(marks)}] {test.sentence}"
        lines.append(f"  - {text}" if test.id in known else f"- **{test.id}** {text}")
        known.add(test.id)
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=PAGE)
    parser.parse_args().output.write_text(page(), encoding="utf-8")
