from __future__ import annotations

import pytest

from wlk_core import ASRToken, Segment
from wlk_core.cli.captions import CaptionBuilder, srt_cue, vtt_cue


@pytest.mark.parametrize(
    ("seconds", "stamp"),
    [
        (0.0, "00:00:00,000"),
        (1.2344, "00:00:01,234"),
        (59.9996, "00:01:00,000"),
        (3599.9999, "01:00:00,000"),
        (360000.0, "100:00:00,000"),
    ],
)
def test_time_stamps_carry_into_the_next_unit(seconds, stamp):
    """A time is rounded to milliseconds before it is split."""
    assert srt_cue(1, Segment(seconds, seconds, "x")).splitlines()[1].startswith(stamp)


def test_a_subrip_cue():
    """A cue has a number, times with a comma and its text, on one line."""
    cue = srt_cue(7, Segment(1.5, 2.25, "five\n six --> seven"))

    assert cue == "7\n00:00:01,500 --> 00:00:02,250\nfive six -> seven\n\n"


def test_a_webvtt_cue_escapes_its_text():
    """A cue has times with a point; markup in the text is text."""
    cue = vtt_cue(7, Segment(1.5, 2.25, "a <b> & c --> d"))

    assert cue == ("00:00:01.500 --> 00:00:02.250\na &lt;b&gt; &amp; c --&gt; d\n\n")


def test_speakers_are_named():
    """A speaker stands before the text, in WebVTT as a voice."""
    segment = Segment(0.0, 1.0, "one", speaker="A>B")

    assert srt_cue(1, segment).splitlines()[2] == "A>B: one"
    assert vtt_cue(1, segment).splitlines()[1] == "<v A&gt;B>one"


def test_a_caption_ends_before_the_next_begins():
    """A word that reaches into the next caption does not make two of them overlap."""
    builder = CaptionBuilder()
    builder.push(ASRToken(0.0, 3.0, "one."))

    assert builder.push(ASRToken(2.5, 4.0, " two")) == Segment(0.0, 2.5, "one.")
    assert builder.flush() == Segment(2.5, 4.0, "two")


def test_a_caption_is_never_empty_in_time():
    """A word without length is shown for a millisecond at least."""
    builder = CaptionBuilder()
    builder.push(ASRToken(2.0, 2.0, "one"))

    assert builder.flush() == Segment(2.0, 2.001, "one")
