"""Plugins on the command line: the commands they add, what they print, and what they raise."""

from __future__ import annotations

import json
import re

import attrs
import pytest

from wlk_core.plugins import AnnotatorSpec, BackendSpec, Option

ODD = {
    BackendSpec: "BackendSpec(**{**toy, **odd})",
    Option: "BackendSpec(**toy, options=[Option(**{'name': 'x', **odd})])",
    AnnotatorSpec: "AnnotatorSpec(**{'kind': 'diarizer', **toy, **odd})",
}
TOY = {"name": "odd", "api": 1, "summary": "odd", "load": "odd:load"}
GREETING = """
import click

@click.command(help="Greet.")
@click.argument("name")
def greet(name):
    if name == "none":
        raise click.UsageError("expected a name")
    click.echo(f"hello {name}")

@hookimpl
def wlk_commands():
    return [
        PluginSpec(kind="command", name="greet", api=1, summary="Greet.", load=f"{__name__}:greet")
    ]
"""


@pytest.fixture
def install(site):
    """Return a function that installs a command."""

    def install(code=GREETING, *, distribution="wlk-greet", point="command.greet"):
        site.install(distribution, [point], code)

    return install


def test_a_command_of_a_plugin_runs_as_one_of_ours(install, command):
    """Its output, status and error messages look like those of any other command."""
    install()

    assert command("greet", "you") == (0, "hello you\n", "")
    assert command("greet", "none") == (
        2, "", "wlk-core: expected a name (see: wlk-core greet --help)\n",
    )  # fmt: skip


def test_the_help_has_its_line_and_imports_nothing(install, command):
    """The entry point gives its name, and the distribution's summary describes it."""
    install("raise AssertionError('the plugin was imported')")

    done = command("--help")

    assert (done.status, done.err) == (0, "")
    assert re.search(r"^  greet +For tests$", done.out, re.MULTILINE)


def test_the_help_leaves_out_what_other_distributions_declare(tmp_path, monkeypatch, command):
    """Entry points of other groups can have such names, and metadata can be damaged."""
    for name, content in (("other", b"[sphinx.builders]\ncommand.foo = a:b\n"), ("bad", b"\xff")):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "entry_points.txt").write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)

    done = command("--help")

    assert (done.status, done.err) == (0, "")
    assert "foo" not in done.out


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import not_a_module\n", "No module named 'not_a_module'"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        (GREETING.replace("def greet(", "def other("), "expected a command 'greet' in "),
        (GREETING.replace('@click.command(help="Greet.")', ""), "expected a command 'greet' in "),
    ],
    ids=["import", "exit", "name", "function"],
)
def test_a_broken_command_is_one_line_and_the_help_goes_on(install, command, code, reason):
    """The line names the cause and the remedy; every other command works."""
    install(code)

    done = command("greet", "you")
    assert done.status == 2
    assert done.err.startswith("wlk-core: command greet cannot be used: ")
    assert reason in done.err
    assert "pip install --upgrade wlk-greet" in done.err
    assert len(done.err.splitlines()) == 1
    assert command("--help").status == 0
    assert command("backends").status == 0


def test_what_a_plugin_prints_is_not_part_of_the_result(install, command):
    """JSON on standard output is JSON, even if a plugin prints when it is imported or asked."""
    code = GREETING.replace("    return [", "    print('in the hook')\n    return [")
    install(f"print('at import')\n{code}")

    done = command("plugins", "--json")

    assert [plugin["status"] for plugin in json.loads(done.out)] == ["ok", "ok"]
    assert done.err == "at import\nin the hook\n"


def test_two_distributions_with_one_command_are_an_error_when_it_is_used(install, command):
    """Neither is chosen silently."""
    install()
    install(distribution="wlk-other")

    done = command("greet", "you")
    assert done.status == 2
    assert "'greet' is offered by wlk-greet 0.1.0 and wlk-other 0.1.0" in done.err


def test_a_plugin_cannot_replace_a_command_of_the_core(install, command):
    """The command of the core wins."""
    install(GREETING.replace("greet", "backends"), point="command.backends")

    assert "List the backends" in command("backends", "--help").out
    assert command("--help").out.count("\n  backends ") == 1


@pytest.fixture
def faults(site):
    """Install plugins that each have a wrong type in a different field; return their faults."""
    found = []
    for made, code in ODD.items():
        for field in attrs.fields(made):
            name = f"odd-{len(found)}"
            odd = f"odd, toy = {{{field.name!r}: object()}}, {TOY}"
            hook = f"@hookimpl\ndef wlk_backends():\n    {odd}\n    yield {code}"
            site.install(name, [name], hook)
            found.append(f"ValueError: {made.__name__}: expected {field.name} as ")
    return found


@pytest.mark.parametrize(
    "arguments",
    [["backends", "--json"], ["models"], ["plugins"], ["backends"]],
    ids=" ".join,
)
def test_plugins_that_fail_end_no_listing(faults, command, arguments):
    """The other backends are listed, and each broken plugin with its fault."""
    done = command(*arguments)

    assert "toy" in done.out
    assert (done.status, done.err) == (0, "")
    if arguments[-1] not in {"models", "--json"}:
        assert [fault for fault in faults if fault not in " ".join(done.out.split())] == []


@pytest.mark.parametrize(
    "arguments",
    [["backends", "odd"], ["models", "--backend", "odd"]],
    ids=" ".join,
)
def test_a_plugin_that_fails_is_one_line_where_it_is_named(site, command, arguments):
    """The line names the backend, the field, what was expected and what came, and the remedy."""
    site.offer("wlk-odd", "odd", languages="en")

    done = command(*arguments)

    assert done.err == (
        "wlk-core: backend odd cannot be used: ValueError: BackendSpec: expected languages as "
        "tuple[str, ...], got 'en'; update it with: pip install --upgrade wlk-odd, or remove it "
        "with: pip uninstall wlk-odd\n"
    )
