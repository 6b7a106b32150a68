"""The test client of whisperlivekit, unmodified, at ``/asr``."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
import sys

import pytest

from wlk_live.whisperlivekit import table
from wlk_serve.cli import serve

from .conftest import KEY

RATE = 16_000
PAGE = (Path(__file__).parents[3] / "docs/migrate.md").read_text(encoding="utf-8")
PACKAGE = find_spec("whisperlivekit")
if PACKAGE is None:
    pytest.skip("install whisperlivekit, or run nox -s clients", allow_module_level=True)


@pytest.fixture
def client(monkeypatch, speech):
    """Load the client's module alone: its package imports torch, and its FFmpeg is not needed."""
    path = Path(PACKAGE.origin).with_name("test_client.py")
    spec = spec_from_file_location("whisperlivekit_test_client", path)
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # its dataclasses look it up
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "load_audio_pcm", lambda _path: speech(RATE))
    return module


@pytest.mark.parametrize("speed", [0, 4])
def test_the_last_state_has_the_words_of_the_command_line(server, expected, client, speed):
    """Each line is a turn with its times, and no text may still change."""
    address = server.address.replace("http:", "ws:").replace("/v1", f"/asr?token={KEY}")
    result = asyncio.run(client.transcribe_audio("clip", address, speed=speed))

    assert [line["text"].strip() for line in result.lines if line["text"]] == list(expected.turns)
    assert result.responses[-1]["buffer_transcription"] == ""
    assert {"active_transcription"} >= {each["status"] for each in result.responses[-5:]}


def test_the_states_of_mode_diff_end_with_the_words_of_the_command_line(server, expected, client):
    """The client repeats a growing line, so the last version of each line counts."""
    address = server.address.replace("http:", "ws:").replace("/v1", f"/asr?token={KEY}")
    result = asyncio.run(client.transcribe_audio("clip", address, speed=0, mode="diff"))

    texts = [line["text"].strip() for line in result.lines if line["text"]]
    assert texts[-1] == expected.turns[-1]
    assert expected.turns[0] in texts


def test_every_flag_of_its_server_is_answered(monkeypatch):
    """Each has a row on the page, and is in the table of the command unless it has the flag."""
    path = Path(PACKAGE.origin).with_name("parse_args.py")
    spec = spec_from_file_location("whisperlivekit_parse_args", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    parsers = []

    def parse(parser):
        parsers.append(parser)
        raise SystemExit

    monkeypatch.setattr(module.ArgumentParser, "parse_args", parse)
    with pytest.raises(SystemExit):
        module.parse_args()
    names = {name for action in parsers[0]._actions for name in action.option_strings}
    flags = names - {"-h", "--help"}
    ours = {name for parameter in serve.params for name in parameter.opts}

    assert [flag for flag in sorted(flags) if f"`{flag}`" not in PAGE] == []
    assert set(table("flags")) == flags - ours
    assert {"--target-language", "--frame-threshold"} <= flags
