"""The command: the same under both names, with errors of one line."""

from __future__ import annotations

import itertools
import json
import logging
import os
import subprocess
import sys
from unittest.mock import Mock

import click
import pytest

from wlk_core.cli.main import execute, main, show_warnings
from wlk_serve import __main__ as module
from wlk_serve import cli
from wlk_serve.cli import _watch

PINNED = (
    *("--host", "--port", "--backend", "--model", "--option", "--api-key-env"),
    *("--allow-origin", "--max-sessions", "--drain-seconds", "--served-name"),
)


def test_wlk_core_serve_is_the_same_command():
    """The command line of the core finds the command through its entry point."""
    assert main.get_command(click.Context(main), "serve") is cli.serve
    assert module.run is cli.run
    assert set(PINNED) <= {name for option in cli.serve.params for name in option.opts}


@pytest.mark.parametrize(("given", "threads"), [(None, "1"), ("4", "4")])
def test_numpy_computes_on_one_thread_unless_the_operator_says_otherwise(
    monkeypatch, given, threads
):
    """Its threads would wait on the processors that engines need; so it was not imported before."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", given or "")  # which is put back
    if given is None:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    execute(["--backend", "nope"], command=cli.serve, name="wlk-serve")
    imported = "import sys, wlk_serve.cli; sys.exit('numpy' in sys.modules)"

    assert os.environ["OPENBLAS_NUM_THREADS"] == threads
    assert subprocess.run([sys.executable, "-c", imported], check=False).returncode == 0


def test_warnings_of_plugins_have_the_form_of_the_log(monkeypatch, capsys):
    """The log's format replaces the program's own, which applies until the server is ready."""
    monkeypatch.setattr(logging.root, "handlers", [])
    show_warnings("wlk-serve")
    cli._log_to_stderr(is_json=True)
    logging.getLogger("wlk_toy").warning("slow")

    assert json.loads(capsys.readouterr().err)["message"] == "slow"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--port", "70000"], 2, "70000"),
        (["--max-sessions", "0"], 2, "max-sessions"),
        (["--host", "0.0.0.0"], 2, "--api-key-env"),  # noqa: S104 -- it is refused
        (["--api-key-env", "WLK_NO_SUCH_KEY"], 2, "expected a key in the variable"),
        (["--speaker-names", "Anna"], 2, "--speaker-names needs a diarizer: --diarizer NAME"),
        (["--backend", "nope"], 1, "no backend called 'nope'"),
        (["--option", "speed=9"], 2, "speed"),
        (["--backend", "scripted", "--model", "owner/absent"], 1, "owner/absent"),
    ],
)
def test_what_cannot_be_served_is_one_line(arguments, status, message, capsys):
    """The line begins with the name of the program that was run."""
    for name, command in (("wlk-core", main), ("wlk-serve", cli.serve)):
        start = ["serve"] if command is main else []
        assert execute([*start, *arguments], command=command, name=name) == status
        lines = capsys.readouterr().err.splitlines()

        assert len(lines) == 1
        assert lines[0].startswith(f"{name}: ")
        assert message in lines[0]


@pytest.mark.parametrize(
    ("hung", "is_draining", "seconds"),
    [([True], False, 2), ([False, True, False, True], False, None), ([False], True, 36)],
    ids=["hung", "frozen for a moment", "drain"],
)
def test_a_server_whose_engine_does_not_return_ends_itself(monkeypatch, hung, is_draining, seconds):
    """It takes two checks, because a frozen process looks hung once; a drain has its own limit."""
    clock, ended = [0.0], []

    def sleep(duration):
        clock[0] += duration
        if clock[0] > 60:
            raise TimeoutError

    def end(status):
        ended.append((clock[0], status))
        raise TimeoutError

    states = itertools.cycle(hung)
    server, service = Mock(sessions=Mock(is_draining=is_draining)), Mock()
    type(service).is_hung = property(lambda _self: next(states))
    monkeypatch.setattr("wlk_serve.cli.time", Mock(sleep=sleep, monotonic=lambda: clock[0]))
    monkeypatch.setattr("wlk_serve.cli.os._exit", end)
    with pytest.raises(TimeoutError):
        _watch(server, service, 0.0)

    assert ended == ([] if seconds is None else [(seconds + 2.0, 1)])
