from __future__ import annotations

import json


def test_backends_is_a_table_of_one_line_each(install_needy, command):
    """A line has the state, default model and summary; a star marks the default."""
    install_needy()

    assert command("backends").out.splitlines() == [
        "BACKEND  STATE                    MODEL   SUMMARY",
        "needy    needs no-such-framework  big     needs much",
        "toy*     installed                digits  reads coded audio",
        "",
        "more about one: wlk-core backends needy",
    ]


def test_the_star_follows_the_configuration(install_needy, command):
    """A default of config.toml is marked; a mistake in it stops no listing."""
    install_needy()
    command("config", "set", "backend", "needy")

    assert command("backends").out.splitlines()[1].startswith("needy*  ")


def test_backends_with_a_name_shows_everything_about_it(install_needy, command):
    """A backend whose framework is absent is described with the install command."""
    install_needy()

    assert command("backends", "needy").out.splitlines() == [
        "needy  (wlk-needy 0.1.0)  needs no-such-framework",
        "  needs much",
        "  install    pip install no-such-framework",
        "  models     digits, big*",
        "             sizes and licences: wlk-core models --backend needy",
        "  policies   alignatt, local-agreement",
        "  languages  2: en, de",
        "  options",
        "    policy=STR  how text is decided to be final (one of: alignatt,",
        "                local-agreement; default: alignatt)",
        "    device=STR  device (one of: cpu, cuda; default: cpu)",
    ]


def test_backends_as_json(install_needy, command):
    """Scripts get the whole declaration and what is missing."""
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
    assert toy == json.loads(command("backends", "toy", "--json").out)
