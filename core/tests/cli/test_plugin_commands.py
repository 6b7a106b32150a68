"""Commands of plugins: found without importing backends, kept apart when broken."""

from __future__ import annotations

import pytest

GREETING = """
import click

@click.command(help="Greet.")
@click.argument("name")
def greet(name):
    if name == "none":
        raise click.UsageError("expected a name")
    click.echo(f"hello {name}")
"""


@pytest.fixture
def install(site):
    """Return a function that installs a command."""

    def install(code=GREETING, *, distribution="wlk-greet", point="command.greet"):
        site.install(distribution, point, code)

    return install


def test_a_command_of_a_plugin_runs_as_one_of_ours(install, command):
    """Its output, its status and its messages are those of the command line."""
    install()

    assert (0, "hello you\n", "") == command("greet", "you")
    wrong = command("greet", "none")
    assert 2 == wrong.status
    assert "wlk-core: expected a name (see: wlk-core greet --help)\n" == wrong.err


def test_the_help_has_its_line_and_imports_nothing(install, command):
    """Its entry point names it, and the summary of the distribution is its line."""
    install("raise AssertionError('the plugin was imported')")

    assert "wlk-greet  0.1.0  ok  command greet" in command("plugins").out
    done = command("--help")

    assert (0, "") == (done.status, done.err)
    assert "  greet       For tests\n" in done.out


def test_the_help_leaves_out_what_other_distributions_declare(tmp_path, monkeypatch, command):
    """Entry points of other groups may have such names, and metadata may be damaged."""
    for name, content in (("other", b"[sphinx.builders]\ncommand.foo = a:b\n"), ("bad", b"\xff")):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "entry_points.txt").write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)

    done = command("--help")

    assert (0, "") == (done.status, done.err)
    assert "foo" not in done.out


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import not_a_module\n", "No module named 'not_a_module'"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        (GREETING.replace("greet(", "other("), "has no attribute 'greet'"),
    ],
    ids=["import", "exit", "name"],
)
def test_a_broken_command_is_one_line_and_the_help_goes_on(install, command, code, reason):
    """The line names the cause and the remedy; every other command works."""
    install(code)

    done = command("greet", "you")
    assert 1 == done.status
    assert done.err.startswith("wlk-core: command greet cannot be used: ")
    assert reason in done.err
    assert "pip install --upgrade wlk-greet" in done.err
    assert 1 == len(done.err.splitlines())
    assert 0 == command("--help").status
    assert 0 == command("backends").status


def test_two_distributions_with_one_command_are_an_error_when_it_is_used(install, command):
    """Neither is chosen in silence."""
    install()
    install(distribution="wlk-other")

    done = command("greet", "you")
    assert 1 == done.status
    assert "'greet' is offered by wlk-greet 0.1.0 and wlk-other 0.1.0" in done.err


def test_a_plugin_cannot_replace_a_command_of_the_core(install, command):
    """The command of the core is used."""
    install(GREETING.replace("greet(", "demo("), point="command.demo")

    assert "wlk-core demo" in command("demo", "--help").out
    assert 1 == command("--help").out.count("\n  demo ")
