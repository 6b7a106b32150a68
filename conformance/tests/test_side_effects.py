"""What a backend changes in its process, or leaves behind."""

from __future__ import annotations

import subprocess
import sys

import pytest

from wlk_conformance.side_effects import (
    changed_state,
    children,
    process_state,
    remaining,
    seeded_by,
)

WAITS = "import sys; sys.stdin.read()"  # until the pipe is closed

IMPORTS_TORCH = """
from functools import partial
import attrs
from wlk_conformance.backend_under_test import BackendUnderTest
from wlk_conformance.rules import rule_tests
from wlk_conformance.runner import judge
from wlk_conformance.scripted import SCRIPTED_SPEC
from wlk_conformance.scripted.backend import load
from wlk_conformance.suite import BackendConformance

def load_without_gradients(model=None, **options):
    import torch
    torch.set_grad_enabled(False)
    return load(SCRIPTED_SPEC, model or "digits")

spec = attrs.evolve(SCRIPTED_SPEC, requires={"torch": "pip install torch"})
under_test = BackendUnderTest(spec=spec, load=load_without_gradients, sessions=0)
for declared, test in rule_tests(BackendConformance):
    if declared.id == "IN-01":
        test = partial(test, BackendConformance())
        judge(declared, test, under_test, lambda outcome: print(outcome.detail))
"""


@pytest.fixture
def child():
    """Return a process that runs until its input is closed."""
    process = subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.stdin.close()
    process.wait()


def test_a_child_that_ends_in_time_is_no_finding(child):
    """A child that ends within the grace period is not reported, even if nobody waited for it."""
    before = frozenset(other for other in children() if other.pid != child.pid)
    child.stdin.close()

    assert remaining(before, grace=30.0) == []


def test_a_seed_of_torch_is_a_finding():
    """A call that seeds torch's generator is found, and one that draws from it is not."""
    torch = pytest.importorskip("torch")

    assert seeded_by(lambda: torch.manual_seed(3)) == ["torch"]
    assert seeded_by(lambda: torch.rand(1)) == []


def test_how_torch_multiplies_belongs_to_the_process():
    """Another precision of matrix products is a change of the process."""
    torch = pytest.importorskip("torch")
    before, precision = process_state(), torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    after = process_state()
    torch.set_float32_matmul_precision(precision)

    (change,) = changed_state(before, after)
    assert "how precisely torch multiplies" in change


@pytest.mark.slow
def test_what_the_load_that_imports_torch_sets_is_a_finding():
    """A framework that is required is imported before the load, whose settings are found so."""
    pytest.importorskip("torch")
    command = [sys.executable, "-c", IMPORTS_TORCH]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert "whether torch records gradients was True, and is False" in done.stdout, done.stderr
