"""A recogniser that makes mistakes complies, and faults around it fail under their own rule."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.slow

# The rules that the faults may break, so that each is shown to break its own first.
RULES = ("IN-03", "COM-01", "COM-03", "TIME-01", "TIME-05", "SIL-07", "QUAL-04")


def test_an_honest_mediocre_recogniser_complies(judge):
    """Every seventh word is wrong; both tiers comply, because accuracy has rules of its own."""
    done = judge("matcher-sound", "--speech", timeout=900)

    report = done.report
    details = {row["id"]: row["detail"] for row in report["rules"]}
    rate = float(re.search(r"WER ([\d.]+) %", details["QUAL-01"])[1])
    assert done.returncode == 0, done.stdout
    assert 8 < rate < 22
    assert report["not_tested"]["not testable"] == ["RES-04"]
    assert report["not_tested"]["not declared"] == ["PKG-05", "LANG-02", "ISO-05", "ISO-07"]


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("joined", "COM-03"),
        ("hello", "QUAL-04"),
        ("every-second", "QUAL-04"),
        ("late", "TIME-05"),
        ("in-frames", "TIME-01"),
    ],
)
def test_a_fault_fails_under_its_own_rule(judge, fault, rule):
    """The last line begins with the rule that the fault breaks, whatever else fails."""
    chosen = [part for name in RULES for part in ("--rule", name)]
    done = judge(f"matcher-{fault}", *chosen, timeout=600)

    assert done.returncode == 1, done.stdout
    assert done.stdout.splitlines()[-1].startswith(f"  NOT COMPLIANT: {rule}")


@pytest.mark.parametrize(
    ("fault", "rule"),
    [
        ("loses-after-second-reset", "LIFE-06"),
        ("loses-after-second-turn", "SPK-01"),
        ("loses-after-second-flush", "LIFE-07"),
        ("loses-after-long-pause", "SIL-07"),
        ("repeats-after-third-pause", "SIL-07"),
    ],
)
def test_a_late_fault_of_a_real_engine_is_found_in_sessions(judge, fault, rule):
    """A stream is compared with its audio alone, with repeated flushes and longer pauses."""
    done = judge(f"matcher-{fault}", "--rule", "COM-04", timeout=600)

    assert done.returncode == 1, done.stdout
    assert rule in done.stdout.splitlines()[-1]
    assert "calls that give other words for the same audio:" in done.stdout


def test_words_can_be_declared_by_the_command(judge):
    """A model whose spec is silent is compared with what was spoken if the command asks for it."""
    silent = judge("matcher-undeclared-hello", "--rule", "QUAL-04")
    declared = judge("matcher-undeclared-hello", "--rule", "QUAL-04", "--words", "digits")

    assert "  not tested, not testable by the suite: QUAL-04\n" in silent.stdout
    assert declared.stdout.endswith("  NOT COMPLIANT: QUAL-04\n")
