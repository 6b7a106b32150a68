"""What `transcribe` draws on a terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console
from rich.live import Live

from wlk_core.cli import live_view
from wlk_core.cli.live_view import LiveView


def test_nothing_is_drawn_where_there_is_no_terminal():
    """Progress is for terminals."""
    assert not LiveView().is_live


def test_the_live_view_shows_committed_text_hypothesis_and_position(
    transcribe, recording, monkeypatch
):
    """On a terminal the open caption, the hypothesis and the clock are drawn."""
    drawn = StringIO()
    console = Console(file=drawn, force_terminal=True, width=60)
    live = LiveView(Live(console=console, auto_refresh=False, transient=True))
    update = live._live.update
    monkeypatch.setattr(live._live, "update", lambda view, **_: update(view, refresh=True))
    monkeypatch.setattr(live_view, "LiveView", lambda: live)

    done = transcribe(recording("a.wav", *range(10)))

    assert done.out == "zero one two three four five six seven eight nine\n"
    assert "a.wav" in drawn.getvalue()
    assert "0:04 of 0:04" in drawn.getvalue()
    assert "\x1b[2m" in drawn.getvalue()
