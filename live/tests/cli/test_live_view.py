"""The live view, and terminal control characters in what the commands write."""

from __future__ import annotations

import json
import time

import click
import pytest

from wlk_core.tokens import ASRToken, SpeakerSpan, Transcript
from wlk_core.untrusted import ACTIVE
from wlk_live.captions.segments import Segment, srt_cue, vtt_cue
from wlk_live.cli.outputs import LiveView, TextFile
from wlk_live.cli.progress import Progress
from wlk_live.session import Commit, Endpoint, HypothesisChange, SpeakerTurn

EVIL = "\x1b[31mred\x07\x9b2J\u202etxt\u2028\x00"


@pytest.mark.parametrize("style", ["text", "json", "jsonl", "srt", "vtt"])
def test_recognised_words_cannot_control_a_terminal(
    command, recording, toy_engine, monkeypatch, style
):
    """A server can put anything into a word; every format escapes it, and JSON preserves it."""
    monkeypatch.setattr(toy_engine, "WORDS", (f" {EVIL}",) * 10)

    out = command("transcribe", "--no-vad", recording("a.wav", 1), "--format", style).out

    assert not ACTIVE.search(out.replace("\n", ""))
    assert "red" in out
    if style == "json":
        assert json.loads(out)["text"] == EVIL


def test_captions_show_what_a_speaker_is_called():
    """Control characters in the name of a speaker are escaped too."""
    segment = Segment(0.0, 1.0, EVIL, EVIL)

    for cue in (srt_cue(1, segment), vtt_cue(1, segment)):
        assert not ACTIVE.search(cue.replace("\n", ""))


def test_the_live_view_shows_words_and_names(monkeypatch, capsys):
    """Control characters in live text are escaped."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "300")
    view = LiveView()
    token = ASRToken(0.0, 1.0, f" {EVIL}")

    view.begin(EVIL, None)
    view.show(Commit((token,), 1.0), EVIL)
    view.show(HypothesisChange(Transcript((token,)), 1.0), EVIL)
    text = click.unstyle(capsys.readouterr().err).split("\r")[-2]

    assert not ACTIVE.search(text.removeprefix("\x1b[K"))
    assert text.count("red") == 3


def test_a_line_that_is_complete_leaves_the_live_view(monkeypatch, capsys):
    """At the end of an utterance its text has been written to standard output."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    view = LiveView()
    view.begin("a.wav", None)
    view.show(Commit((ASRToken(0.0, 1.0, " word"),), 1.0), "a.wav")
    before = capsys.readouterr().err
    view.show(Endpoint(1.0, "silence", 2.0), "a.wav")

    assert "word" in before
    assert "word" not in capsys.readouterr().err


def test_a_line_that_waits_for_its_speaker_stays_in_the_live_view(monkeypatch, capsys):
    """Its words are always on the screen: in the view until the line is written."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    view = LiveView()
    view.has_late_lines = True
    view.begin("a.wav", None)
    view.show(Commit((ASRToken(0.0, 1.0, " word"),), 1.0), "a.wav")
    capsys.readouterr()
    view.show(Endpoint(1.0, "silence", 2.0), "a.wav")
    before = capsys.readouterr().err
    TextFile(view).write("Anna: word\n")
    view.show(SpeakerTurn(SpeakerSpan("Anna", 0.0, 1.0), 3.0), "a.wav")

    assert "word" in before
    assert "word" not in capsys.readouterr().err


def test_nothing_is_drawn_where_there_is_no_terminal(capsys):
    """Progress is shown only on a terminal."""
    LiveView().draw("a.wav")

    assert capsys.readouterr() == ("", "")


def test_the_live_view_shows_position_committed_text_and_hypothesis(
    transcribe, recording, monkeypatch
):
    """A terminal shows the clock and the newest words in one line, which is cleared at the end."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)
    done = transcribe(recording("a.wav", *range(10)))
    lines = [click.unstyle(line) for line in done.err.split("\r\x1b[K")]

    assert done.out == "zero one two three four five six seven eight nine\n"
    assert done.err.endswith("\r\x1b[K\r")
    assert any("0:00:04 of 0:00:04  a.wav" in line for line in lines)
    assert any("one" in line for line in lines)
    assert all(len(line.strip("\r")) < 60 for line in lines)


def at(monkeypatch, seconds):
    """Let the clock show *seconds*."""
    monkeypatch.setattr(time, "monotonic", lambda: seconds)


def test_the_position_moves_on_while_the_model_works(monkeypatch):
    """It goes at the speed so far, and never past the audio that the model was given."""
    at(monkeypatch, 100.0)
    progress = Progress(600.0)
    progress.give("a.wav", 30.0)
    at(monkeypatch, 102.0)
    progress.finish("a.wav", 20.0)  # ten times as fast as it was spoken
    positions = []
    for seconds in (102.0, 102.5, 103.0, 110.0):
        at(monkeypatch, seconds)
        positions.append(progress.position)

    assert positions == [20.0, 25.0, 30.0, 30.0]
    assert progress.text() == "  10x, 0:00:57 left"


def test_a_position_never_goes_back(monkeypatch):
    """Not even if the model becomes slower."""
    at(monkeypatch, 100.0)
    progress = Progress(600.0)
    progress.give("a.wav", 600.0)
    at(monkeypatch, 101.0)
    progress.finish("a.wav", 100.0)
    at(monkeypatch, 103.0)
    before = progress.position
    progress.finish("a.wav", 110.0)

    assert before == progress.position == 300.0


def test_nothing_is_said_of_speed_before_it_is_known(monkeypatch):
    """The first second says little."""
    at(monkeypatch, 100.0)
    progress = Progress(600.0)
    at(monkeypatch, 100.5)
    progress.finish("a.wav", 20.0)

    assert (progress.text(), progress.position) == ("", 20.0)


def test_several_recordings_have_one_progress(monkeypatch):
    """Their positions are added."""
    at(monkeypatch, 100.0)
    progress = Progress(60.0)
    at(monkeypatch, 110.0)
    for name in "ab":
        progress.finish(name, 10.0)

    assert (progress.text(), progress.position) == ("  2.0x, 0:00:20 left", 20.0)


def test_a_line_is_no_wider_than_the_terminal(monkeypatch, capsys):
    """A wider one would leave its beginning on the screen when it is redrawn."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    view = LiveView()
    view.begin("long name " * 9, 60.0)
    view.show(Commit((ASRToken(0.0, 1.0, " word"),), 1.0), "a.wav")
    line = capsys.readouterr().err.split("\r")[-2].removeprefix("\x1b[K")

    assert len(click.unstyle(line)) <= 40
    assert line.startswith("0:00:01 of 0:01:00  long name")
