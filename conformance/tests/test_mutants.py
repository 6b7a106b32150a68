from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from wlk_conformance.mutants import all_mutants
from wlk_conformance.mutation import mutated, mutations

SOURCE = '''\
"""A module."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import ast
__all__ = ["f", 1]
LIMIT: "1 + 1" = 3
@decorated(flag=True)
def f(x: "1 < 2", is_on=False) -> "3":
    if x < LIMIT and not is_on:
        raise ValueError(f"{x + 1} is below {LIMIT}")
    return max(x, 2.0)
'''


def test_mutations_leave_alone_what_does_nothing():
    """Annotations, decorators, exports, type imports and messages are not mutated."""
    assert [
        (6, "3 to 4"),
        (6, "3 to 2"),
        (8, "False to True"),
        (9, "not x < LIMIT and (not is_on)"),
        (9, "And to Or"),
        (9, "Lt to LtE"),
        (9, "Lt to GtE"),
        (11, "return None"),
        (11, "max to min"),
        (11, "2.0 to 5.0"),
    ] == [(mutation.line, mutation.what) for mutation in mutations(SOURCE)]


def test_each_mutation_makes_another_module():
    """A mutation changes what is compiled, no two alike, and each compiles."""
    trees = [mutated(SOURCE, mutation.number) for mutation in mutations(SOURCE)]
    texts = {ast.unparse(tree) for tree in trees}

    assert len(trees) == len(texts - {ast.unparse(ast.parse(SOURCE))})
    assert all(compile(tree, "module", "exec") for tree in trees)


def test_the_parts_of_streams_are_mutated():
    """Every module with anything to get wrong is there."""
    modules = {mutant.module for mutant in all_mutants()}

    assert {"wlk_core.streaming.alignatt", "wlk_core.online.stream"} <= modules


@pytest.mark.slow
def test_a_mistake_is_seen():
    """A policy that commits everything but what two hypotheses agree on does not live."""
    wanted = ("wlk_core.streaming.local_agreement", "NotEq to Eq")
    number = next(
        mutant.mutation.number
        for mutant in all_mutants()
        if (mutant.module, mutant.mutation.what) == wanted
    )
    code = f"from wlk_conformance.mutants import judge; print(judge({wanted[0]!r}, '{number}'))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, timeout=300
    )

    assert "1" == done.stdout.strip().splitlines()[-1]
