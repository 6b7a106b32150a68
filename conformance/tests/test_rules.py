from __future__ import annotations

import ast
from pathlib import Path
import re

from wlk_conformance.rules import rule_ids, rule_tests
from wlk_conformance.suite import BackendConformance
from wlk_conformance.suite_run import RULES_OF_CALLS

SOURCE = Path(__file__).parents[1] / "src" / "wlk_conformance"


def test_rules_are_declared_well():
    """An id is a family and two figures, a sentence ends in a period, and names are unique."""
    tests = [declared for declared, _ in rule_tests(BackendConformance)]

    assert all(re.fullmatch(r"[A-Z]{2,4}-\d\d", test.id) for test in tests)
    assert all(test.sentence.endswith(".") for test in tests)
    assert len(tests) == len({test.name for test in tests})
    assert all(test.causes or test.id == "QUAL-03" for test in tests), (
        "a rule names the usual causes of its failure"
    )


def test_rules_stand_in_the_contracts_order():
    """The tests of a family follow each other, by number."""
    ids = [declared.id for declared, _ in rule_tests(BackendConformance)]
    for family in dict.fromkeys(id_.partition("-")[0] for id_ in ids):
        numbers = [id_ for id_ in ids if id_.startswith(f"{family}-")]

        assert numbers == sorted(numbers)


def test_the_ids_are_those_of_the_suite():
    """A deviation is checked against every rule of the suite and no other."""
    assert {declared.id for declared, _ in rule_tests(BackendConformance)} == rule_ids()


def test_every_call_has_a_rule_of_the_contract():
    """A call that hangs or ends the process fails under a rule that exists."""
    assert set(RULES_OF_CALLS.values()) <= rule_ids()


def test_only_public_names_of_core_are_used():
    """The suite imports what any plugin may: public names of wlk_core and its public modules."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("wlk_core"):
                assert "._" not in node.module, f"{path.name} imports {node.module}"
                assert not any(name.name.startswith("_") for name in node.names), (
                    f"{path.name} imports {[name.name for name in node.names]} of {node.module}"
                )
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("wlk_whisper"), path.name
