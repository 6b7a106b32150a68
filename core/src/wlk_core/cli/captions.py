"""Subtitle formats: time stamps, numbers and escapes of SubRip and WebVTT."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core.segments import Segment, SegmentBuilder

if TYPE_CHECKING:
    from wlk_core.tokens import ASRToken

__all__ = ["CaptionBuilder", "srt_cue", "vtt_cue"]

_SHORTEST = 0.001  # seconds; a cue that ends where it begins is never shown


@attrs.define
class CaptionBuilder:
    """Build captions that follow one another: none ends after the next one begins."""

    _builder: SegmentBuilder = attrs.field(factory=SegmentBuilder)

    def push(self, token: ASRToken) -> Segment | None:
        """Take the next token; return the caption that it ended, if any."""
        ended = self._builder.push(token)
        return None if ended is None else _shown(ended, token.start)

    def flush(self) -> Segment | None:
        """Return the last caption, if any."""
        last = self._builder.flush()
        return None if last is None else _shown(last, last.end)


def srt_cue(number: int, segment: Segment) -> str:
    """Return a cue of SubRip, the number counting from 1."""
    said = " ".join(segment.text.split()).replace("-->", "->")
    text = said if segment.speaker is None else f"{segment.speaker}: {said}"
    return f"{number}\n{_stamp(segment.start, ',')} --> {_stamp(segment.end, ',')}\n{text}\n\n"


def vtt_cue(number: int, segment: Segment) -> str:
    """Return a cue of WebVTT, the speaker as its voice; it needs no number."""
    del number
    text = _escaped(segment.text)
    if segment.speaker is not None:
        text = f"<v {_escaped(str(segment.speaker))}>{text}"
    return f"{_stamp(segment.start, '.')} --> {_stamp(segment.end, '.')}\n{text}\n\n"


def _shown(segment: Segment, latest_end: float) -> Segment:
    end = max(segment.start + _SHORTEST, min(segment.end, latest_end))
    return attrs.evolve(segment, end=end)


def _escaped(text: str) -> str:
    plain = " ".join(text.split())
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _stamp(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, milliseconds = divmod(milliseconds, 1000)
    return f"{hours:02}:{minutes:02}:{whole:02}{point}{milliseconds:03}"
