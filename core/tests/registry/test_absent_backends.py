"""Names that no installed plugin offers: a guess, and the command that installs the backend."""

from __future__ import annotations

from pathlib import Path
import re
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from wlk_core import (
    BackendUnavailable,
)
from wlk_core.registry import Registry, known_backends

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = Path(__file__).resolve().parents[3]
TOY = """
@hookimpl
def wlk_backends():
    yield spec("toy")
"""


def test_a_misspelt_backend_is_guessed(site: Any) -> None:
    """The error for a misspelt name suggests the installed backend with a similar name."""
    site.install("wlk-toy", ["toy"], TOY)

    with pytest.raises(BackendUnavailable, match=r"did you mean toy\?"):
        site.registry().spec("tyo")


@pytest.mark.parametrize("name", sorted(known_backends()))
@pytest.mark.parametrize("installs", [["wlk-toy"], []], ids=["another backend", "no backend"])
def test_a_backend_of_this_project_comes_with_its_install_command(
    site: Any, name: str, installs: list[str]
) -> None:
    """The error for a known backend has its install command, whatever else is installed."""
    for distribution in installs:
        site.install(distribution, ["toy"], TOY)

    with pytest.raises(BackendUnavailable) as caught:
        site.registry().spec(name)

    assert str(caught.value) == (
        f"no backend called {name!r}; installed: {'toy' if installs else 'none'}; "
        f"install it with: {known_backends()[name]}"
    )


def test_a_misspelt_backend_of_this_project_is_guessed_and_can_be_installed(site: Any) -> None:
    """A known backend with a similar name is suggested, with its install command."""
    site.install("wlk-toy", ["toy"], TOY)

    with pytest.raises(
        BackendUnavailable, match=r"did you mean voxtral-hf\?\); install voxtral-hf"
    ):
        site.registry().spec("voxtral-fh")


def test_every_plugin_of_this_project_has_an_install_command() -> None:
    """Each entry point of each plugin is known, and its command names the distribution."""
    projects = [
        *REPOSITORY.glob("plugins/*/pyproject.toml"),
        REPOSITORY / "conformance/pyproject.toml",
    ]
    offered: dict[str, str] = {}
    for path in projects:
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        names = project.get("entry-points", {}).get("wlk.plugins", {})
        offered |= dict.fromkeys(names, project["name"])

    assert sorted(offered) == sorted(known_backends())
    for name, command in known_backends().items():
        assert re.fullmatch(rf"pip install ('{offered[name]}\[[a-z]+\]'|{offered[name]})", command)


@pytest.mark.parametrize("find", [lambda r: r.spec("toy"), Registry.default_backend])
def test_without_any_plugin_the_error_has_an_install_command(
    site: Any, find: Callable[[Registry], object]
) -> None:
    """With no plugin at all, the error has a command that installs one."""
    with pytest.raises(BackendUnavailable) as caught:
        find(site.registry())

    assert str(caught.value) == (
        "no backend is installed: wlk-core carries no model of its own; "
        "install one, for example: pip install wlk-whisper"
    )
