"""The page of benchmarks, which tools/benchmark_page.py writes."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import attrs
from click.testing import CliRunner
import pytest

from wlk_bench.cli import run_command
from wlk_bench.results import read_result
from wlk_conformance.scripted import SCRIPTED_SPEC, ScriptedBackend
from wlk_core.errors import BackendUnavailable

from .conftest import coded_manifest

SCRIPT = Path(__file__).parents[2] / "tools" / "benchmark_page.py"


def loaded_script():
    """Return the script as a module; tools/ is not installed."""
    spec = spec_from_file_location("benchmark_page", SCRIPT)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


page_script = loaded_script()

ABSENT = "a-framework-that-is-nowhere"


def declared(name, **fields):
    """Return the declaration of a backend with a digits checkpoint."""
    plain = {"models": {"digits": "bundled"}, "policies": (), "options": (), "requires": {}}
    fields = {**plain, **fields}
    return attrs.evolve(SCRIPTED_SPEC, name=name, **fields)


class Shelf:
    """A registry of scripted backends, of which some do not run here."""

    distribution = "wlk-core"

    def __init__(self, *specs, broken=()):
        self._specs = {spec.name: spec for spec in specs}
        self._broken = broken

    def specs(self):
        """Return all declarations."""
        return tuple(self._specs.values())

    def spec(self, name):
        """Return one declaration."""
        return self._specs[name]

    def owner(self, _name):
        """Return the distribution that offers a backend."""
        return self

    def load_backend(self, name, _model=None, **_options):
        """Return a backend, or fail like a framework that finds no device."""
        if name in self._broken:
            raise BackendUnavailable(f"{name} finds no device")
        return ScriptedBackend()


def test_a_backend_is_measured_with_each_policy_it_declares(tmp_path):
    """There is a row for every policy, and one for a backend without policies."""
    shelf = Shelf(declared("both", policies=("native", "alignatt")), declared("single"))
    specs, _ = page_script.survey(shelf)

    results = list(page_script.measure_all(shelf, specs, tmp_path, "digits", limit=1))

    setups = [result["setup"] for result in results]
    assert [("both", "native"), ("both", "alignatt")] == [
        (setup["backend"], setup["stream_options"]["policy"]) for setup in setups[:2]
    ]
    assert ["both", "both", "single"] == [setup["backend"] for setup in setups]
    assert {"digits"} == {setup["model"] for setup in setups}


@pytest.mark.parametrize(
    "spec",
    [SCRIPTED_SPEC, declared("endpoint", models={"small": "elsewhere"})],
    ids=["coded-audio", "no-digits-checkpoint"],
)
def test_a_backend_without_a_digits_checkpoint_is_not_in_the_table(spec):
    """The backend is neither measured nor reported as missing."""
    assert ([], []) == page_script.survey(Shelf(spec))


def test_the_page_names_the_backends_that_were_not_measured():
    """Without any backend the page states that, and names those left out."""
    text = page_script.page([], [], [("other", "needs torch")])

    assert "No backend with a `digits` checkpoint is installed." in text
    assert "Not measured on this machine: `other` (needs torch)." in text


def test_the_page_is_written_and_unusable_backends_are_reported(tmp_path, monkeypatch):
    """One row a policy in both tables, and a line for each backend that does not work."""
    absent = declared("absent", requires={ABSENT: "pip install it"})
    working = declared("working", policies=("native",))
    shelf = Shelf(absent, declared("broken"), working, broken={"broken"})
    monkeypatch.setattr(page_script, "Registry", lambda: shelf)
    output = tmp_path / "page.md"

    done = CliRunner().invoke(page_script.main, ["--output", str(output), "--limit", "1"])

    text = output.read_text(encoding="utf-8")
    assert done.exit_code == 0, done.output
    assert f"absent is left out: needs {ABSENT}" in done.output
    assert "broken is left out: broken finds no device" in done.output
    assert text.count("| `working` | native |") == 2
    assert "`broken` (broken finds no device)" in text


@pytest.mark.usefixtures("scripted")
def test_the_page_has_a_row_a_backend(tmp_path):
    """Every cell of the row is filled from the result."""
    data = coded_manifest(tmp_path)
    output = tmp_path / "out"
    source = ["--data", f"manifest:{data}", "--output", str(output)]
    assert 0 == run_command(["run", "scripted", "--language", "en", *source])

    text = page_script.page([read_result(output)], [read_result(output)], [])

    tables = [line for line in text.splitlines() if line.startswith("|")]
    row = tables[2]
    assert [line.count("|") for line in tables] == 3 * [row.count("|")] + 3 * [13]
    assert "0.00 % [0.00, 26.46]" in row  # the interval of 12 words is wide
