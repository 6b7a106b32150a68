"""Subtitle formats: captions of tokens as SubRip and WebVTT text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from wlk_core.segments import Segment, SegmentBuilder
from wlk_core.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wlk_core.tokens import ASRToken

__all__ = ["VTT_HEADER", "CaptionBuilder", "srt_cue", "srt_text", "vtt_cue", "vtt_text"]

VTT_HEADER = "WEBVTT\n\n"
_SHORTEST = 0.001  # seconds; players never show a cue that ends where it begins


@attrs.define
class CaptionBuilder:
    """Build captions that follow one another: none ends after the next one begins."""

    _builder: SegmentBuilder = attrs.field(factory=SegmentBuilder)

    def push(self, token: ASRToken) -> Segment | None:
        """Append the next token; return the caption that it ended, if any."""
        ended = self._builder.push(token)
        return None if ended is None else _ending_by(ended, token.start)

    def flush(self) -> Segment | None:
        """Return the last caption, if any."""
        last = self._builder.flush()
        return None if last is None else _ending_by(last, last.end)


def srt_text(tokens: Iterable[ASRToken]) -> str:
    """Return the SubRip file of *tokens*; empty for no tokens."""
    cues = enumerate(_captions(tokens), 1)
    return "".join(srt_cue(number, caption) for number, caption in cues)


def vtt_text(tokens: Iterable[ASRToken]) -> str:
    """Return the WebVTT file of *tokens*; the header alone for no tokens."""
    cues = enumerate(_captions(tokens), 1)
    return VTT_HEADER + "".join(vtt_cue(number, caption) for number, caption in cues)


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


def _captions(tokens: Iterable[ASRToken]) -> Iterator[Segment]:
    builder = CaptionBuilder()
    for token in tokens:
        if ended := builder.push(token):
            yield ended
    if last := builder.flush():
        yield last


def _ending_by(segment: Segment, latest_end: float) -> Segment:
    end = max(segment.start + _SHORTEST, min(segment.end, latest_end))
    return attrs.evolve(segment, end=end)


def _escaped(text: str) -> str:
    plain = printable(" ".join(text.split()))
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _stamp(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, milliseconds = divmod(milliseconds, 1000)
    return f"{hours:02}:{minutes:02}:{whole:02}{point}{milliseconds:03}"
