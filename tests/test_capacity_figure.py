from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from wlk_bench.capacity.service_times import ServiceTimes

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def tool():
    """Return the script that draws the figure; it lives outside of packages."""
    spec = importlib.util.spec_from_file_location("figure", ROOT / "tools/capacity_figure.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def data():
    """Return the data beside the figure."""
    return json.loads((ROOT / "docs/capacity.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_curve_is_what_the_simulation_gives(tool, data):
    """The first points are simulated again on the costs of the file."""
    report = {
        "setup": data["setup"],
        "platform": data["setup"],
        "service": ServiceTimes.from_json(data["service"]),
        **{name: data["setup"][name] for name in ("cores", "p99_lateness", "sessions")},
    }
    drawn = tool.build(report, loads=tool.LOADS[:2])

    for expected, row in zip(data["curve"], drawn["curve"], strict=False):
        assert expected == pytest.approx(row)


def test_the_curve_reaches_ten_thousand_sessions(data):
    """More sessions need more replicas, and no point refuses one in a hundred."""
    replicas = [row["replicas"] for row in data["curve"]]

    assert 10_000 == data["curve"][-1]["sessions"]
    assert sorted(replicas) == replicas
    assert all(row["refused"] <= 0.01 * row["arrived"] for row in data["curve"])


@pytest.mark.slow
def test_the_figure_is_drawn_from_the_data(tool, data, tmp_path):
    """The same data give the same file."""
    paths = [tmp_path / name for name in ("a.svg", "b.svg")]
    for path in paths:
        tool.draw(data, path)

    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert b"Cost against load" in paths[0].read_bytes()
