"""Subtitles of arbitrary tokens, read back by FFmpeg."""

from __future__ import annotations

import html
import io
from itertools import pairwise
import re
from unicodedata import category

import av
from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from wlk_core import ASRToken
from wlk_live.captions.segments import Layout, segments_from_tokens, srt_text, vtt_text

from .cases import cases

pytestmark = pytest.mark.slow

MARKS = [" one", " -->", "\n\n", "1\n00:00:00,000 --> 00:00:01,000\n", " <b>", "&amp;", "NOTE x"]
VISIBLE = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12)
TEXTS = VISIBLE | st.sampled_from([*MARKS, "{\\an8}"])
SPEAKERS = st.none() | st.integers(0, 3) | st.sampled_from(["A", "<v>", "-->"])


@st.composite
def tokens(draw, texts=TEXTS, speakers=SPEAKERS):
    """Draw tokens as a stream emits them: starts never decrease."""
    time, drawn = 0.0, []
    for _ in range(draw(st.integers(0, 8))):
        time += draw(st.floats(0.0, 5.0))
        length = draw(st.floats(0.0, 3.0))
        text, speaker = draw(texts), draw(speakers)
        drawn.append(ASRToken(time, time + length, text, speaker=speaker))
    return drawn


def cues(text, form):
    """Return start and end in milliseconds and payload of each cue, as FFmpeg reads them."""
    with av.open(io.BytesIO(text.encode()), format=form) as container:
        return [
            (packet.pts, packet.pts + packet.duration, bytes(packet).decode())
            for packet in container.demux()
            if packet.size
        ]


def captions(drawn):
    """Return the captions of tokens, with times in milliseconds."""
    return [
        (round(caption.start * 1000), round(caption.shown_until * 1000), caption)
        for caption in segments_from_tokens(drawn)
    ]


def distinct(found):
    """Return the distinct cues with text: FFmpeg drops cues that are repeated at the same time."""
    return list(dict.fromkeys(cue for cue in found if cue[2]))


def letters(text):
    """Return the letters and digits of a string, which no format changes."""
    return "".join(filter(str.isalnum, text))


@cases
@given(drawn=tokens())
@example(drawn=[ASRToken(0.0, 1.0, "a\n\n2\n00:00:05,000 --> 00:00:06,000\nb")])
@example(drawn=[ASRToken(0.0, 1.0, "<v B>a --> &lt;")])
def test_subtitles_are_read_back(drawn):
    """Every caption with text is one cue with its times; no text makes or overlaps another cue."""
    srt, vtt = cues(srt_text(drawn), "srt"), cues(vtt_text(drawn), "webvtt")
    expected = captions(drawn)
    named = [
        (start, end, letters(f"{Layout().voice(part.speaker)}{part.text}"))
        for start, end, part in expected
    ]
    spoken = [(start, end, letters(part.text)) for start, end, part in expected]
    plain = [
        (start, end, letters(html.unescape(re.sub(r"^<v [^>]*>", "", text))))
        for start, end, text in vtt
    ]

    assert distinct(named) == distinct([(*times, letters(text)) for *times, text in srt])
    assert distinct(spoken) == distinct(plain)
    for found in (srt, vtt):
        assert all(start < end for start, end, _ in found)
        assert all(before[1] <= max(after[0], before[0] + 1) for before, after in pairwise(found))


@cases
@given(drawn=tokens(st.text(st.characters(), max_size=6), st.none() | st.text(max_size=3)))
@example(drawn=[ASRToken(0.0, 1.0, "a\x1b[2J\x00\x9bb\ud800")])
def test_no_control_character_is_written(drawn):
    """The only control characters in the file are its line ends, so it is safe in a terminal."""
    for text in (srt_text(drawn), vtt_text(drawn)):
        assert not [mark for mark in text if mark != "\n" and category(mark) == "Cc"]
