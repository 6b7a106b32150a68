"""Plugins installed for one test only: real modules with real package metadata."""

from __future__ import annotations

from importlib import metadata
import os
from pathlib import Path
import sys
from textwrap import dedent

import pytest

import wlk_core
from wlk_core.registry import Registry

_HEAD = """
from types import SimpleNamespace

from wlk_core.plugins import AnnotatorSpec, BackendSpec, Option, hookimpl

def spec(name, **more):
    declared = {"name": name, "api": 1, "summary": "a toy", "load": f"{__name__}:load", **more}
    return BackendSpec(**declared)

def load(spec, model, **options):
    return SimpleNamespace(model=model, options=options)
"""


class Site:
    """A folder of installed distributions."""

    def __init__(self, folder):
        self.folder = folder

    def install(self, distribution, names, code="", *, module=None, version="0.1.0"):
        """Install a plugin whose module is *code*, offering entry points called *names*."""
        module = module or f"{distribution.replace('-', '_')}_plugin"
        (self.folder / f"{module}.py").write_text(_HEAD + dedent(code), encoding="utf-8")
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        head = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        (info / "METADATA").write_text(f"{head}Summary: For tests\n", encoding="utf-8")
        lines = "".join(f"{name} = {module}\n" for name in names)
        (info / "entry_points.txt").write_text(f"[wlk.plugins]\n{lines}", encoding="utf-8")

    def offer(self, distribution, *names, **fields):
        """Install a plugin that declares backends called *names*, each with *fields*."""
        specs = "".join(f"    yield spec({name!r}, **{fields!r})\n" for name in names)
        self.install(distribution, names, f"@hookimpl\ndef wlk_backends():\n{specs}")

    def registry(self):
        """Return a registry that sees this site and nothing else."""
        found = metadata.distributions(path=[str(self.folder)])
        return Registry(point for distribution in found for point in distribution.entry_points)

    @property
    def environment(self):
        """The environment of a process that sees these plugins too."""
        source = Path(wlk_core.__file__).parents[1]
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.folder), str(source)])}


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Put an empty site on the import path; its modules are unloaded afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delenv("WLK_STRICT_PLUGINS", raising=False)
    before = set(sys.modules)
    yield Site(folder)
    for name in set(sys.modules) - before:
        if name.endswith(("_plugin", "_framework", "_engine")):
            del sys.modules[name]
