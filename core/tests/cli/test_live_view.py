"""What `transcribe` draws on a terminal."""

from __future__ import annotations

import click
import pytest

from wlk_core.cli import live_view
from wlk_core.cli.live_view import LiveView


@pytest.fixture
def terminal(monkeypatch):
    """Let standard error count as a terminal of 60 columns."""
    monkeypatch.setattr(live_view, "_is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")


def test_nothing_is_drawn_where_there_is_no_terminal(capsys):
    """Progress is for terminals."""
    view = LiveView()
    view.begin("a.wav", None)
    view.hide()

    assert not view.is_live
    assert ("", "") == capsys.readouterr()


@pytest.mark.usefixtures("terminal")
def test_the_live_view_shows_position_committed_text_and_hypothesis(
    transcribe, recording, monkeypatch
):
    """On a terminal the clock and the newest words are drawn, in one line that is cleared."""
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)
    done = transcribe(recording("a.wav", *range(10)))
    lines = [click.unstyle(line) for line in done.err.split("\r\x1b[K")]

    assert done.out == "zero one two three four five six seven eight nine\n"
    assert done.err.endswith("\r\x1b[K")
    assert any("0:04 of 0:04  a.wav" in line for line in lines)
    assert any("one" in line for line in lines)
    assert all(len(line.strip("\r")) < 60 for line in lines)
