"""The page docs/benchmarks.md, which tools/benchmark_page.py writes."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
import re

import attrs
from click.testing import CliRunner

from wlk_conformance.scripted import SCRIPTED_SPEC

from .conftest import FakeRegistry

SCRIPT = Path(__file__).parents[2] / "tools" / "benchmark_page.py"


spec = spec_from_file_location("benchmark_page", SCRIPT)  # tools/ is not installed
page_script = module_from_spec(spec)
spec.loader.exec_module(page_script)

ABSENT = "a-framework-that-is-nowhere"


def declared(name, **fields):
    """Return the spec of a backend with a digits checkpoint."""
    plain = {"models": {"digits": "bundled"}, "policies": (), "options": (), "requires": {}}
    fields = {**plain, **fields}
    return attrs.evolve(SCRIPTED_SPEC, name=name, **fields)


def test_the_page_is_written_and_unusable_backends_are_reported(tmp_path, monkeypatch):
    """Both tables have a row for each policy; a line names each backend that does not work."""
    absent = declared("absent", requires={ABSENT: "pip install it"})
    working = declared("working", policies=("native", "alignatt"))
    # Backends that read coded audio or have no digits checkpoint are not in the table.
    others = (SCRIPTED_SPEC, declared("remote", models={"small": "elsewhere"}))
    registry = FakeRegistry(
        absent, declared("broken"), working, declared("single"), *others, broken={"broken"}
    )
    monkeypatch.setattr(page_script, "Registry", lambda: registry)
    output = tmp_path / "page.md"

    done = CliRunner().invoke(page_script.main, ["--output", str(output), "--limit", "1"])

    text = output.read_text(encoding="utf-8")
    assert done.exit_code == 0, done.output
    assert f"absent is left out: needs {ABSENT}" in done.output
    assert "broken is left out: broken finds no device" in done.output
    tables = [line for line in text.splitlines() if line.startswith("|")]
    columns = [line.count("|") for line in tables]
    assert columns == 5 * [columns[0]] + 5 * [columns[-1]]
    rows = [line.split("|")[1:3] for line in tables if line.startswith("| `")]
    expected = [(" `working` ", " native "), (" `working` ", " alignatt "), (" `single` ", " - ")]
    assert [tuple(row) for row in rows] == 2 * expected
    assert not {"scripted", "remote"} & set(re.findall(r"\w+", text))
    assert "`broken` (broken finds no device)" in text
    assert "No backend with a `digits` checkpoint" in page_script.page([], [], [])
