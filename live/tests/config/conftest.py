"""A configuration in a folder of its own, and a registry of two declared backends."""

from __future__ import annotations

import os

import pytest

from wlk_core.plugins import BackendSpec, BackendUnavailable, Option

OPTIONS = (
    Option(name="device", default="auto", choices=("auto", "cpu", "cuda")),
    Option(name="fast", type=bool, default=False),
    Option(name="beam_size", type=int, default=1, minimum=1, maximum=16, scope="stream"),
    Option(name="border_seconds", type=float, default=0.5, scope="stream", policies=("alignatt",)),
)


def declare(name, **options):
    """Return a backend with options of both scopes."""
    return BackendSpec(
        name=name,
        api=1,
        summary="a toy",
        load="toys:load",
        policies=("local-agreement", "alignatt"),
        models={"base": "acme/base"},
        default_model="base",
        options=OPTIONS,
        **options,
    )


class Toys:
    """The part of a registry that the configuration uses."""

    def __init__(self):
        self.toy = declare(
            "toy", capabilities={"language-forcing"}, languages=("de", "en"), preference=2
        )
        self.other = declare("other", languages=("de", "en"), preference=1)

    def spec(self, name):
        """Return a backend by name."""
        if spec := {"toy": self.toy, "other": self.other}.get(name):
            return spec
        raise BackendUnavailable(f"no backend called {name!r}; installed: other, toy")

    model_spec = spec

    def specs(self):
        """Return every backend."""
        return (self.other, self.toy)

    def default_backend(self):
        """Return the preferred backend."""
        return self.toy


@pytest.fixture
def registry():
    """Return a registry of two backends; "toy" is the default."""
    return Toys()


@pytest.fixture(autouse=True)
def path(tmp_path, monkeypatch):
    """Return the path of config.toml; the user's variables are ignored."""
    for name in os.environ:
        if name.startswith("WLK_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("WLK_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "config.toml"


@pytest.fixture
def write(path):
    """Return a function that writes config.toml."""

    def write(text):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    return write
