"""Captions as SubRip and WebVTT."""

from __future__ import annotations

import pytest

from wlk_core.captions import srt_cue, srt_text, vtt_cue, vtt_text
from wlk_core.segments import Segment, segments_from_tokens
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


def test_a_cue_is_text_on_one_line_after_its_speaker():
    """Markup in the text is text; WebVTT has the speaker as a voice."""
    segment = Segment(1.5, 2.25, "a <b> &\n c --> d", speaker="A>B")

    assert "7\n00:00:01,500 --> 00:00:02,250\nA>B: a <b> & c -> d\n\n" == srt_cue(7, segment)
    assert ("00:00:01.500 --> 00:00:02.250\n<v A&gt;B>a &lt;b&gt; &amp; c --&gt; d\n\n") == vtt_cue(
        7, segment
    )


def test_captions_never_overlap_and_are_never_empty_in_time():
    """A word may reach into the next caption, or have no length."""
    tokens = [ASRToken(0.0, 3.0, "one."), ASRToken(2.5, 2.5, " two")]

    assert (Segment(0.0, 2.5, "one."), Segment(2.5, 2.501, "two")) == segments_from_tokens(tokens)


def test_a_file_numbers_its_cues():
    """SubRip counts from 1; WebVTT begins with its header, also without words."""
    tokens = [ASRToken(0.0, 1.0, " One."), ASRToken(1.5, 2.0, " Two")]

    assert (
        "1\n00:00:00,000 --> 00:00:01,000\nOne.\n\n2\n00:00:01,500 --> 00:00:02,000\nTwo\n\n"
    ) == srt_text(tokens)
    assert (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nOne.\n\n00:00:01.500 --> 00:00:02.000\nTwo\n\n"
    ) == vtt_text(tokens)
    assert ("", "WEBVTT\n\n") == (srt_text([]), vtt_text([]))
