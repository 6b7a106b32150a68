"""The commands `backends` and `plugins`: what is installed, and what works."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from wlk_core.cli import backends


def test_backends_as_json(install_needy, command):
    """Scripts get each backend's declaration and what is missing."""
    install_needy()

    needy, toy = json.loads(command("backends", "--json").out)

    assert needy["installed"] is False
    assert needy["missing"] == [
        {"distribution": "no-such-framework", "install": "pip install no-such-framework"}
    ]
    assert (needy["distribution"], needy["version"]) == ("wlk-needy", "0.1.0")
    assert needy["models"] == {"digits": "bundled", "big": "a/big"}
    assert [(option["name"], option["scope"]) for option in needy["options"]] == [
        ("policy", "stream"),
        ("device", "backend"),
    ]
    assert (toy["name"], toy["installed"], toy["missing"]) == ("toy", True, [])
    assert json.loads(command("backends", "toy", "--json").out) == toy


BROKEN = "import not_a_module\n"
REMEDY = (
    "update it with: pip install --upgrade wlk-broken, or remove it with: pip uninstall wlk-broken"
)


def test_plugins_shows_what_is_broken_and_why(site, command):
    """A broken plugin is listed with the reason."""
    site.install("wlk-broken", ["broken"], BROKEN)

    first, *wrapped, last = command("plugins").out.splitlines()

    assert first.startswith("wlk-broken 0.1.0  broken  No module named 'not_a_module'; ")
    assert " ".join([first, *map(str.strip, wrapped)]).endswith(f"'not_a_module'; {REMEDY}")
    assert last == "wlk-toy 0.1.0     ok      toy"


def test_plugins_as_json(site, command):
    """Scripts get the name, version, status, offers and error of each plugin."""
    site.install("wlk-broken", ["broken"], BROKEN)

    assert json.loads(command("plugins", "--json").out) == [
        {
            "name": "wlk-broken",
            "version": "0.1.0",
            "status": "broken",
            "offers": [],
            "error": f"No module named 'not_a_module'; {REMEDY}",
        },
        {
            "name": "wlk-toy",
            "version": "0.1.0",
            "status": "ok",
            "offers": [{"kind": "backend", "name": "toy"}],
            "error": None,
        },
    ]


@pytest.mark.parametrize("name", ["plugins", "backends"])
def test_listing_nothing_names_what_to_install(site, name, command):
    """Without any plugin a listing names one to install, and JSON is an empty list."""
    for path in site.folder.glob("*.dist-info/*"):
        path.unlink()

    assert "install a backend, for example: pip install " in command(name).out
    assert command(name, "--json").out == "[]\n"


@pytest.fixture
def processes(site, monkeypatch):
    """Make the site visible to the processes that load a backend."""
    monkeypatch.setattr(os, "environ", site.environment)


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_check_really_loads_the_backend(command):
    """A working backend is loaded and run in another process, and what it logs is shown."""
    done = command("backends", "--check", "toy")

    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("toy works: digits runs in integers on paper; model digits took ")


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_check_names_why_a_backend_does_not_load(install_needy, command):
    """A framework that cannot be imported is reported with the reason, also as JSON."""
    install_needy()

    done = command("backends", "--check", "needy", "--json")

    assert done.status == 1
    assert json.loads(done.out)["ok"] is False
    assert done.err == (
        "wlk-core: backend needy cannot be used: No module named 'no_such_framework'; "
        "install it with: pip install no-such-framework\n"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals")
def test_check_survives_a_framework_that_crashes(install_needy, command):
    """A framework that kills its process kills only that process."""
    install_needy("import os, signal; os.kill(os.getpid(), signal.SIGILL)")

    done = command("backends", "--check", "needy")

    assert done.status == 1
    assert "needy cannot be used: it crashed its process: Illegal instruction" in done.err


def test_a_backend_that_does_not_load_in_time_is_named(toy_spec, monkeypatch):
    """The message states the limit."""

    def run(command, *, timeout, **_options):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", run)

    assert backends.check_backend(toy_spec) == ("broken", "it did not load within 300 seconds")


@pytest.fixture
def toy_spec(site):
    """Return the declaration of the toy."""
    return site.registry().spec("toy")
