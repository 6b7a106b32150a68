"""Captions as SubRip and WebVTT."""

from __future__ import annotations

import pytest

from wlk_core.captions import CaptionBuilder, srt_cue, srt_text, vtt_cue, vtt_text
from wlk_core.segments import Segment
from wlk_core.tokens import ASRToken


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

    assert "7\n00:00:01,500 --> 00:00:02,250\nfive six -> seven\n\n" == cue


def test_a_webvtt_cue_escapes_its_text():
    """A cue has times with a point; markup in the text is text."""
    cue = vtt_cue(7, Segment(1.5, 2.25, "a <b> & c --> d"))

    assert ("00:00:01.500 --> 00:00:02.250\na &lt;b&gt; &amp; c --&gt; d\n\n") == cue


def test_speakers_are_named():
    """A speaker stands before the text, in WebVTT as a voice."""
    segment = Segment(0.0, 1.0, "one", speaker="A>B")

    assert "A>B: one" == srt_cue(1, segment).splitlines()[2]
    assert "<v A&gt;B>one" == vtt_cue(1, segment).splitlines()[1]


def test_a_caption_ends_before_the_next_begins():
    """A word that reaches into the next caption does not make two of them overlap."""
    builder = CaptionBuilder()
    builder.push(ASRToken(0.0, 3.0, "one."))

    assert Segment(0.0, 2.5, "one.") == builder.push(ASRToken(2.5, 4.0, " two"))
    assert Segment(2.5, 4.0, "two") == builder.flush()


def test_a_caption_is_never_empty_in_time():
    """A word without length is shown for a millisecond at least."""
    builder = CaptionBuilder()
    builder.push(ASRToken(2.0, 2.0, "one"))

    assert Segment(2.0, 2.001, "one") == builder.flush()


def test_a_file_numbers_its_cues():
    """SubRip counts from 1; WebVTT begins with its header."""
    tokens = [ASRToken(0.0, 1.0, " One."), ASRToken(1.5, 2.0, " Two")]

    assert (
        "1\n00:00:00,000 --> 00:00:01,000\nOne.\n\n2\n00:00:01,500 --> 00:00:02,000\nTwo\n\n"
    ) == srt_text(tokens)
    assert (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nOne.\n\n00:00:01.500 --> 00:00:02.000\nTwo\n\n"
    ) == vtt_text(tokens)


def test_a_file_without_words_is_valid():
    """SubRip without cues is empty, WebVTT its header."""
    assert "" == srt_text([])
    assert "WEBVTT\n\n" == vtt_text([])
