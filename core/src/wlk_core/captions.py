"""Subtitle formats: captions of tokens as SubRip and WebVTT text."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from wlk_core.segments import Segment, segments_from_tokens
from wlk_core.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core.tokens import ASRToken

__all__ = ["VTT_HEADER", "srt_cue", "srt_text", "vtt_cue", "vtt_text"]

VTT_HEADER = "WEBVTT\n\n"


def srt_text(tokens: Iterable[ASRToken]) -> str:
    """Return the SubRip file of *tokens*; empty for no tokens."""
    return "".join(map(srt_cue, itertools.count(1), segments_from_tokens(tokens)))


def vtt_text(tokens: Iterable[ASRToken]) -> str:
    """Return the WebVTT file of *tokens*; the header alone for no tokens."""
    return VTT_HEADER + "".join(map(vtt_cue, itertools.count(1), segments_from_tokens(tokens)))


def srt_cue(number: int, segment: Segment) -> str:
    """Return a cue of SubRip, the number counting from 1."""
    words = " ".join(segment.text.split()).replace("-->", "->")
    text = words if segment.speaker is None else f"{segment.speaker}: {words}"
    span = f"{_stamp(segment.start, ',')} --> {_stamp(segment.end, ',')}"
    return f"{number}\n{span}\n{printable(text)}\n\n"


def vtt_cue(number: int, segment: Segment) -> str:
    """Return a cue of WebVTT, the speaker as its voice; WebVTT cues need no number."""
    del number
    text = _escaped(segment.text)
    if segment.speaker is not None:
        text = f"<v {_escaped(str(segment.speaker))}>{text}"
    return f"{_stamp(segment.start, '.')} --> {_stamp(segment.end, '.')}\n{text}\n\n"


def _escaped(text: str) -> str:
    plain = printable(" ".join(text.split()))
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _stamp(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, milliseconds = divmod(milliseconds, 1000)
    return f"{hours:02}:{minutes:02}:{whole:02}{point}{milliseconds:03}"
