from __future__ import annotations

import json

import pytest

BROKEN = "import not_a_module\n"
REMEDY = (
    "update it with: pip install --upgrade wlk-broken, or remove it with: pip uninstall wlk-broken"
)


def test_plugins_shows_what_is_broken_and_why(site, command):
    """A broken plugin is a line with the reason."""
    site.install("wlk-broken", "broken", BROKEN)

    first, *wrapped, last = command("plugins").out.splitlines()

    assert first.startswith("wlk-broken  0.1.0  broken  No module named 'not_a_module'; ")
    assert " ".join([first, *map(str.strip, wrapped)]).endswith(f"'not_a_module'; {REMEDY}")
    assert last == "wlk-toy     0.1.0  ok      toy"


def test_plugins_as_json(site, command):
    """Scripts get the name, version, status, backends and error of each plugin."""
    site.install("wlk-broken", "broken", BROKEN)

    assert json.loads(command("plugins", "--json").out) == [
        {
            "name": "wlk-broken",
            "version": "0.1.0",
            "status": "broken",
            "backends": [],
            "commands": [],
            "error": f"No module named 'not_a_module'; {REMEDY}",
        },
        {
            "name": "wlk-toy",
            "version": "0.1.0",
            "status": "ok",
            "backends": ["toy"],
            "commands": [],
            "error": None,
        },
    ]


@pytest.mark.parametrize("name", ["plugins", "backends"])
def test_listing_nothing_names_what_to_install(empty_site, name, command):
    """Without any plugin a listing names one to install, and JSON is an empty list."""
    for path in empty_site.folder.glob("*.dist-info/*"):
        path.unlink()

    assert "install one, for example: pip install " in command(name).out
    assert command(name, "--json").out == "[]\n"
