"""The command that finds heads reports a missing framework or device in one line."""

from __future__ import annotations

import sys

import pytest

from wlk_qwen3_simul.detect_heads.command import main
from wlk_qwen3_simul.detect_heads.manifest import EXAMPLE


@pytest.fixture
def arguments(tmp_path):
    """Return arguments of a command that fails before it opens a clip."""
    manifest = tmp_path / "clips.jsonl"
    manifest.write_text(EXAMPLE, encoding="utf-8")
    return ["digits", "--manifest", str(manifest), "--output", str(tmp_path / "heads.json")]


def test_without_torch_the_command_names_what_installs_it(arguments, monkeypatch, capsys):
    """It prints one line instead of a traceback."""
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "wlk_qwen3_simul.detect_heads.clips", raising=False)

    assert 1 == main(arguments)
    errors = capsys.readouterr().err
    assert "pip install 'wlk-qwen3-simul[torch]'" in errors
    assert 1 == errors.count("\n")


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_missing_device_is_reported_in_one_line(arguments, device, monkeypatch, capsys):
    """The message is that of the backend, and comes before anything is loaded."""
    torch = pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
    pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    assert 1 == main([*arguments, "--device", device])
    errors = capsys.readouterr().err
    assert f"has no device {device} here" in errors
    assert 1 == errors.count("\n")
