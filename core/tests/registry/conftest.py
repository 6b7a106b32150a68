"""A site of plugins that exist only for one test: real modules with real package metadata."""

from __future__ import annotations

from importlib import metadata
import sys
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from wlk_core.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_HEAD = """
from types import SimpleNamespace

from wlk_core.plugins import BackendSpec, hookimpl

def spec(name, **more):
    declared = {"name": name, "api": 1, "summary": "a toy", "load": f"{__name__}:load", **more}
    return BackendSpec(**declared)

def load(spec, model, **options):
    return SimpleNamespace(model=model, options=options)
"""


class Site:
    """A folder of installed distributions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(
        self,
        distribution: str,
        names: list[str],
        code: str = "",
        *,
        module: str | None = None,
        version: str = "0.1.0",
    ) -> None:
        """Install a plugin whose module is *code*, offering entry points called *names*."""
        module = module or f"{distribution.replace('-', '_')}_plugin"
        (self.folder / f"{module}.py").write_text(_HEAD + dedent(code), encoding="utf-8")
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n", encoding="utf-8"
        )
        lines = "".join(f"{name} = {module}\n" for name in names)
        (info / "entry_points.txt").write_text(f"[wlk.plugins]\n{lines}", encoding="utf-8")

    def offer(self, distribution: str, *names: str, **fields: object) -> None:
        """Install a plugin that declares backends called *names*, all of them with *fields*."""
        specs = "".join(f"    yield spec({name!r}, **{fields!r})\n" for name in names)
        self.install(distribution, list(names), f"@hookimpl\ndef wlk_backends():\n{specs}")

    def registry(self) -> Registry:
        """Return a registry that sees this site and nothing else."""
        found = metadata.distributions(path=[str(self.folder)])
        return Registry(point for distribution in found for point in distribution.entry_points)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Return an empty site on the import path; its modules are unloaded afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delenv("WLK_STRICT_PLUGINS", raising=False)
    before = set(sys.modules)
    yield Site(tmp_path)
    for name in set(sys.modules) - before:
        if name.endswith(("_plugin", "_framework")):
            del sys.modules[name]
