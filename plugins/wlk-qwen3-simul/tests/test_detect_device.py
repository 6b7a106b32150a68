"""The command that finds heads says in one line what it has to run on, and what it lacks."""

from __future__ import annotations

import sys

import pytest

from wlk_core import OptionError
from wlk_qwen3_simul.detect.manifest import EXAMPLE
from wlk_qwen3_simul.detect_heads import main


@pytest.fixture
def arguments(tmp_path):
    """Return what the command is told; it fails before it opens a clip."""
    manifest = tmp_path / "clips.jsonl"
    manifest.write_text(EXAMPLE, encoding="utf-8")
    return ["digits", "--manifest", str(manifest), "--output", str(tmp_path / "heads.json")]


def test_without_torch_the_command_says_what_installs_it(arguments, monkeypatch, capsys):
    """One line instead of a traceback."""
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "wlk_qwen3_simul.detect.clips", raising=False)

    assert 1 == main(arguments)
    told = capsys.readouterr().err
    assert "pip install 'wlk-qwen3-simul[torch]'" in told
    assert 1 == told.count("\n")


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_not_here_is_told_in_one_line(arguments, device, monkeypatch, capsys):
    """As the backend tells it, before anything is loaded."""
    torch = pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
    pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    assert 1 == main([*arguments, "--device", device])
    told = capsys.readouterr().err
    assert f"device={device} was asked for" in told
    assert 1 == told.count("\n")


def test_an_unknown_device_is_refused_with_the_list(arguments, capsys):
    """By the command, and by the call behind it."""
    with pytest.raises(SystemExit):
        main([*arguments, "--device", "banana"])
    assert "invalid choice: 'banana'" in capsys.readouterr().err

    pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
    from wlk_qwen3_simul.torch_device import device_of  # noqa: PLC0415 -- brings torch

    with pytest.raises(OptionError, match="one of auto, cpu, cuda, mps; got 'banana'"):
        device_of("banana")
