"""The distributions move together while they are 0.x."""

from __future__ import annotations

from pathlib import Path
import tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = [
    tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    for pattern in ("core", "conformance", "bench", "serve", "plugins/*")
    for path in sorted(ROOT.glob(f"{pattern}/pyproject.toml"))
]


def test_every_distribution_has_the_same_version():
    """One version for all, named by the changelog."""
    versions = {project["version"] for project in PROJECTS}

    assert 1 == len(versions)
    assert f"## {versions.pop()} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_every_plugin_caps_the_core():
    """A plugin declares which minor versions of the core it was written for."""
    for project in PROJECTS:
        if project["name"] not in {"wlk-core", "wlk-whisper-digits"}:  # the latter is data only
            needs = [d for d in project["dependencies"] if d.startswith("wlk-core")]
            assert ["wlk-core>=0.1,<0.2"] == needs, project["name"]


def test_the_project_speaks_of_itself_alone():
    """No file that is shipped contains a path of a machine."""
    marks = [f"/{folder}/" for folder in ("work", "root", "home", "tmp")]
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        if path.suffix not in {".py", ".pyi", ".md", ".toml", ".json", ".yml"} or parts[
            0
        ].startswith("."):
            continue
        if {"build", "dist", "site", ".nox", ".venv"} & set(parts):
            continue
        text = path.read_text(encoding="utf-8")
        assert not [mark for mark in marks if mark in text], path
