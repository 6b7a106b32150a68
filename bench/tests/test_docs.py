from __future__ import annotations

import attrs
from click.testing import CliRunner
import pytest

from wlk_bench import docs
from wlk_core.errors import BackendUnavailable
from wlk_core.testing import SCRIPTED_SPEC, ScriptedBackend

ABSENT = "a-framework-that-is-nowhere"


def declared(name, **fields):
    """Return the declaration of a backend with a digits checkpoint."""
    fields = {"models": {"digits": "bundled"}, "policies": (), "requires": {}, **fields}
    return attrs.evolve(SCRIPTED_SPEC, name=name, **fields)


class Shelf:
    """A registry of backends that all hear coded audio, except for those that do not run here."""

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
        """Return what offers a backend."""
        return self

    def load_backend(self, name, _model=None, **_options):
        """Return a backend, or fail as one whose framework finds no device."""
        if name in self._broken:
            raise BackendUnavailable(f"{name} finds no device")
        return ScriptedBackend()


def test_a_backend_is_measured_with_each_policy_it_declares(tmp_path):
    """There is a row for every policy, and one for a backend that has no choice."""
    shelf = Shelf(declared("both", policies=("native", "alignatt")), declared("one"))
    specs, _ = docs.survey(shelf)

    results = list(docs.measure_all(shelf, specs, tmp_path, "digits", limit=1))

    setups = [result["setup"] for result in results]
    assert [("both", "native"), ("both", "alignatt")] == [
        (setup["backend"], setup["stream_options"]["policy"]) for setup in setups[:2]
    ]
    assert ["both", "both", "one"] == [setup["backend"] for setup in setups]
    assert {"digits"} == {setup["model"] for setup in setups}


def test_only_what_works_here_is_measured():
    """A backend without its framework, or whose framework does not run, is told of with why."""
    shelf = Shelf(
        declared("absent", requires={ABSENT: "pip install it"}),
        declared("broken"),
        declared("hearing"),
        broken={"broken"},
    )

    specs, unmeasured = docs.survey(shelf)

    assert ["hearing"] == [spec.name for spec in specs]
    assert [("absent", f"needs {ABSENT}"), ("broken", "broken finds no device")] == unmeasured


@pytest.mark.parametrize(
    "spec",
    [SCRIPTED_SPEC, declared("endpoint", models={"small": "elsewhere"})],
    ids=["coded-audio", "no-digits-checkpoint"],
)
def test_a_backend_without_a_digits_checkpoint_is_not_in_the_table(spec):
    """There is nothing to be measured, and nothing missing."""
    assert ([], []) == docs.survey(Shelf(spec))


def test_the_page_names_what_was_not_measured():
    """Without a backend that hears, the page says so, and what was left out."""
    text = docs.page([], [], [("other", "needs torch")])

    assert "No backend with a `digits` checkpoint is installed." in text
    assert "Not measured on this machine: `other` (needs torch)." in text


def test_the_page_is_written_and_what_is_left_out_is_told(tmp_path, monkeypatch):
    """One row a policy in both tables, and a line for each backend that does not work."""
    shelf = Shelf(declared("hearing", policies=("native",)), declared("deaf"), broken={"deaf"})
    monkeypatch.setattr(docs, "Registry", lambda: shelf)
    output = tmp_path / "page.md"

    done = CliRunner().invoke(docs.main, ["--output", str(output), "--limit", "1"])

    text = output.read_text(encoding="utf-8")
    assert done.exit_code == 0, done.output
    assert "deaf is left out: deaf finds no device" in done.output
    assert text.count("| `hearing` | native |") == 2
    assert "Not measured on this machine: `deaf` (deaf finds no device)." in text
