from __future__ import annotations

import json
import os

import pytest

BROKEN = "import not_a_module\n"
NEEDY = """
from wlk_core import BackendSpec, Option, hookimpl

def load(model, **options):
    import no_such_framework

@hookimpl
def wlk_backends():
    yield BackendSpec(
        name="needy", api=1, summary="needs much", load=load, languages=["en", "de"],
        policies=["alignatt", "local-agreement"], models={"digits": "bundled", "big": "a/big"},
        default_model="big", requires={"no-such-framework": "pip install no-such-framework"},
        options=[Option(name="device", default="cpu", choices=("cpu", "cuda"), help="where")],
    )
"""


def test_plugins_shows_each_distribution(command):
    """A working plugin is a line with its backends."""
    assert command("plugins") == (0, "wlk-toy  0.1.0  ok  toy\n", "")


def test_plugins_shows_what_is_broken_and_why(site, command):
    """A broken plugin is a line with the reason."""
    site.install("wlk-broken", "broken", BROKEN)

    done = command("plugins")

    assert done.out.splitlines() == [
        "wlk-broken  0.1.0  broken  No module named 'not_a_module'",
        "wlk-toy     0.1.0  ok      toy",
    ]


def test_plugins_shows_two_distributions_with_one_backend(site, command):
    """A backend that two distributions offer is a fault of both."""
    site.install(
        "wlk-other",
        "toy",
        "from wlk_toy_cli_plugin import wlk_backends\n",
    )

    rows = json.loads(command("plugins", "--json").out)

    assert [row["status"] for row in rows] == ["broken", "broken"]
    assert "is offered by wlk-other 0.1.0 and wlk-toy 0.1.0" in rows[0]["error"]


def test_plugins_as_json(site, command):
    """Scripts get the name, version, status, backends and error of each plugin."""
    site.install("wlk-broken", "broken", BROKEN)

    assert json.loads(command("plugins", "--json").out) == [
        {
            "name": "wlk-broken",
            "version": "0.1.0",
            "status": "broken",
            "backends": [],
            "error": "No module named 'not_a_module'",
        },
        {
            "name": "wlk-toy",
            "version": "0.1.0",
            "status": "ok",
            "backends": ["toy"],
            "error": None,
        },
    ]


@pytest.mark.parametrize("name", ["plugins", "backends"])
def test_listing_nothing_says_what_to_install(empty_site, name, command):
    """Without any plugin a listing names one to install, and JSON is an empty list."""
    for path in empty_site.folder.glob("*.dist-info/*"):
        path.unlink()

    assert "pip install wlk-whisper" in command(name).out
    assert command(name, "--json").out == "[]\n"


def test_backends_shows_what_is_missing_and_what_installs_it(site, command):
    """A backend whose framework is absent is listed with the install command."""
    site.install("wlk-needy", "needy", NEEDY)

    done = command("backends")

    assert done.out.splitlines()[:9] == [
        "needy  (wlk-needy 0.1.0)  needs no-such-framework",
        "  needs much",
        "  install       pip install no-such-framework",
        "  models        digits, big*",
        "  policies      alignatt, local-agreement",
        "  languages     2: en, de",
        "  option        policy=STR  how text is decided to be final (one of: alignatt,",
        "                local-agreement) [default: alignatt]",
        "  option        device=STR  where (one of: cpu, cuda) [default: cpu]",
    ]


def test_backends_fits_eighty_columns(site, command):
    """No line of the listing is wider than a terminal."""
    site.install("wlk-needy", "needy", NEEDY)

    assert max(map(len, command("backends").out.splitlines())) <= 80


def test_backends_names_plugins_that_were_left_out(site, command):
    """A broken plugin is mentioned below the backends that work."""
    site.install("wlk-broken", "broken", BROKEN)

    assert command("backends").out.endswith("left out: wlk-broken (see: wlk-core plugins)\n")


def test_backends_as_json(site, command):
    """Scripts get the whole declaration and what is missing."""
    site.install("wlk-needy", "needy", NEEDY)

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


@pytest.mark.slow
def test_check_really_loads_the_backend(site, monkeypatch, command):
    """A backend that works is loaded and run in another process."""
    monkeypatch.setattr(os, "environ", site.environment)

    done = command("backends", "--check", "toy")

    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("toy: loaded model digits and ran it (")


@pytest.mark.slow
def test_check_says_why_a_backend_does_not_load(site, monkeypatch, command):
    """A framework that does not import is told with its reason, also as JSON."""
    site.install("wlk-needy", "needy", NEEDY)
    monkeypatch.setattr(os, "environ", site.environment)

    done = command("backends", "--check", "needy", "--json")

    assert done.status == 1
    assert json.loads(done.out)["ok"] is False
    assert done.err == (
        "wlk-core: backend needy cannot be used: No module named 'no_such_framework'; "
        "install it with: pip install no-such-framework\n"
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows knows no signals")
def test_check_survives_a_framework_that_crashes(site, monkeypatch, command):
    """A framework that kills its process takes only that process."""
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    site.install("wlk-needy", "needy", NEEDY.replace("import no_such_framework", crash))
    monkeypatch.setattr(os, "environ", site.environment)

    done = command("backends", "--check", "needy")

    assert done.status == 1
    assert "backend needy crashed its process (SIGILL)" in done.err


def test_check_of_an_unknown_backend_says_so(command):
    """A name nobody offers is refused before a process is started."""
    done = command("backends", "--check", "nope")

    assert done == (1, "", "wlk-core: no backend called 'nope'; installed: toy\n")
