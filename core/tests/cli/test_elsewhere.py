from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest

from wlk_core.cli.elsewhere import environment_rows
from wlk_core.standard_options import PROMPT, PYTHON

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs /bin/sh")

SERVE = {"name": "wlk-serve", "version": "0.1.0", "backends": [], "commands": ["serve"]}
TOY = {"name": "wlk-toy", "version": "0.2.0", "backends": ["paper", "toy"], "commands": []}


@pytest.fixture
def registry():
    """Return a registry with one backend that runs elsewhere."""
    specs = (
        SimpleNamespace(name="local", options=(PROMPT,)),
        SimpleNamespace(name="remote", options=(PYTHON,)),
    )
    return SimpleNamespace(specs=lambda: specs)


@pytest.fixture
def python(tmp_path, monkeypatch):
    """Return a function that puts a program that writes *text* into the configuration."""
    monkeypatch.setenv("WLK_HOME", str(tmp_path))

    def configure(text):
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
        config = f'[options.remote]\npython = "{path}"\n'
        (tmp_path / "config.toml").write_text(config, encoding="utf-8")
        return path

    return configure


def test_an_environment_is_listed_with_what_is_installed_there(registry, python):
    """Distributions, their versions and backends."""
    path = python(f"cat <<'END'\n{json.dumps([SERVE, TOY])}\nEND")

    rows = list(environment_rows(registry))

    assert [("remote", f"{path}: wlk-serve 0.1.0, wlk-toy 0.2.0 (paper, toy)")] == rows


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"echo '{json.dumps([TOY])}'", "has no wlk-serve"),
        ("echo 'No module named wlk_core' >&2; exit 1", "has no wlk-core (No module named"),
        ("exit 7", "has no wlk-core (exit status 7)"),
        ("echo nonsense", "lists no plugins (Expecting value"),
    ],
    ids=["no server", "no core", "no Python", "nonsense"],
)
def test_an_environment_that_lacks_something_is_a_line_too(text, reason, registry, python):
    """The line names it, and the command that installs it."""
    path = python(text)

    ((name, line),) = environment_rows(registry)

    assert "remote" == name
    assert f"{path}: {reason}" in line


def test_a_variable_precedes_the_configuration(registry, python, monkeypatch):
    """As in every command; a path that is no Python is reported."""
    python("exit 0")
    monkeypatch.setenv("WLK_OPTION_PYTHON", "/no/such/python")

    ((_, line),) = environment_rows(registry)

    assert "got '/no/such/python'" in line


def test_without_the_option_there_is_no_line(registry, tmp_path, monkeypatch):
    """Most configurations have none."""
    monkeypatch.setenv("WLK_HOME", str(tmp_path))

    assert [] == list(environment_rows(registry))
