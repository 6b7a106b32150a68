from __future__ import annotations

import json

import pytest


@pytest.fixture
def path(tmp_path):
    """Return the path of config.toml."""
    return tmp_path / "wlk" / "config.toml"


def test_the_path_is_printed(command, path):
    """The file need not exist."""
    assert command("config", "path") == (0, f"{path}\n", "")
    assert command("config") == command("config", "--help")


def test_a_value_is_set_and_shown(command, path, monkeypatch):
    """Environment variables are listed below the file, as comments."""
    assert command("config", "show") == (0, f"# {path} does not exist\n", "")
    assert command("config", "set", "model", "digits").out == f"model is digits in {path}\n"
    command("config", "set", "options.toy.tick_seconds", "2")
    monkeypatch.setenv("WLK_LANGUAGE", "de")

    assert command("config", "show").out.splitlines() == [
        f"# {path}",
        'model = "digits"',
        "",
        "[options.toy]",
        "tick_seconds = 2.0",
        "# WLK_LANGUAGE=de",
    ]


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["set", "backend", "nope"], 1, "no backend called 'nope'; installed: toy"),
        (["set", "options.toy.tick_sec", "2"], 2, "no option is called 'tick_sec' (did you mean t"),
        (["set", "options.nope.device", "cpu"], 1, "no backend called 'nope'; installed: toy"),
        (["set", "options.toy.tick_seconds", "99"], 2, "tick_seconds must be between 0.1 and"),
        (["set", "tick_seconds", "2"], 2, "unknown configuration key tick_seconds; expected"),
        (["set", "options.toy", "cpu"], 2, "unknown configuration key options.toy; expected"),
        (["set", "options.toy.device.x", "cpu"], 2, "unknown configuration key options.toy.device"),
        (["set", "options..device", "cpu"], 2, "unknown configuration key options..device; exp"),
        (["set", "model", ""], 2, "model needs a value; remove the line from "),
        (["set", "model"], 2, "missing argument 'VALUE' (see: wlk-core config set --help)"),
    ],
)
def test_an_invalid_change_is_reported_in_one_line(command, path, arguments, status, text):
    """Only a value that a command would accept is written."""
    done = command("config", *arguments)

    assert (done.status, done.out) == (status, "")
    assert text in done.err
    assert done.err.count("\n") == 1
    assert not path.exists()


def test_transcribe_uses_the_configuration(command, recording, path):
    """The language in the file is forced; a flag overrides it."""
    path.parent.mkdir()
    path.write_text('language = "de"\n[options.toy]\ntick_seconds = 0.5\n')
    arguments = ("transcribe", "--no-vad", recording("a.wav", 1), "--format", "json")

    assert json.loads(command(*arguments).out)["language"] == "de"
    assert json.loads(command(*arguments, "--language", "en").out)["language"] == "en"
