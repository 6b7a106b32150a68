"""Captions from committed tokens: segments, JSON records, SubRip and WebVTT cues."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from wlk_core.untrusted import plain, printable
from wlk_live.captions.line_breaks import binds_to, column_count, continues_character, may_divide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wlk_core.tokens import ASRToken

VTT_HEADER = "WEBVTT\n\n"

SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", "।", "؟")  # noqa: RUF001 -- users' scripts
_CLOSING = "\"'”’»)]」』）】"  # noqa: RUF001 -- may follow the end of a sentence
_WORD_FACTOR = 2  # even a word without spaces is divided at this multiple of the limits
_MIN_SECONDS = 0.001  # players never show a cue that ends when it begins


@attrs.frozen
class Segment:
    """A caption: text of one speaker between two stream times in seconds, and its translation."""

    start: float
    end: float
    text: str
    speaker: int | str | None = None
    translation: str | None = None


@attrs.define(kw_only=True)
class SegmentBuilder:
    """
    Build captions from tokens as they are committed, in constant memory.

    A caption ends at a pause of `max_gap` seconds, at a change of speaker, at the end of a
    sentence, and before it would last longer than `max_seconds` or be wider than `max_characters`
    (subtitle practice: two lines of 42 characters, 7 seconds).  A wide character, as in Chinese or
    Japanese, counts as two, so a line has 21 of them.

    Captions never overlap.  A caption never begins inside a word or a character, or with closing
    punctuation; in scripts without spaces it may begin at any other character.  So a caption can
    grow to twice these limits; then even a word is divided, but never a token.
    """

    max_gap: float = 0.8
    max_seconds: float = 7.0
    max_characters: int = 84
    _tokens: list[ASRToken] = attrs.field(factory=list, init=False)
    text: str = attrs.field(default="", init=False)  #: the text of the current caption
    _columns: int = attrs.field(default=0, init=False)

    def push(self, token: ASRToken) -> Segment | None:
        """Append the next token; return the caption that it ended, if any."""
        ended = None
        if self._tokens and self._breaks_before(token):
            ended = self.flush(latest_end=token.start)
        self._tokens.append(token)
        self.text += token.text
        self._columns += column_count(token.text)
        return ended

    def flush(self, latest_end: float = math.inf) -> Segment | None:
        """Return the current caption, if any, and begin a new one."""
        if not self._tokens:
            return None
        tokens, text = self._tokens, self.text.strip()
        self._tokens, self.text, self._columns = [], "", 0
        start, end = tokens[0].start, max(token.end for token in tokens)
        end = max(start + _MIN_SECONDS, min(end, latest_end))
        return Segment(start, end, text, tokens[0].speaker)

    def _breaks_before(self, token: ASRToken) -> bool:
        last = self._tokens[-1]
        if token.speaker != last.speaker:
            return True
        if continues_character(self.text, token.text):
            return False
        is_pause = token.start - last.end >= self.max_gap
        is_sentence = self.text.rstrip().rstrip(_CLOSING).endswith(SENTENCE_ENDS)
        if (is_pause or is_sentence) and not binds_to(self.text, token.text):
            return True
        may_end = is_pause or may_divide(self.text, token.text)
        factor = 1 if may_end else _WORD_FACTOR
        seconds = token.end - self._tokens[0].start
        columns = self._columns + column_count(token.text)
        return seconds > factor * self.max_seconds or columns > factor * self.max_characters


def segments_from_tokens(tokens: Iterable[ASRToken]) -> tuple[Segment, ...]:
    """Return the captions of a finished token sequence; empty without tokens."""
    return tuple(segment for segment, _ in segments_with_tokens(tokens))


def segments_with_tokens(
    tokens: Iterable[ASRToken],
) -> Iterator[tuple[Segment, tuple[ASRToken, ...]]]:
    """Yield each caption of a finished token sequence with its tokens, in one pass."""
    builder = SegmentBuilder()
    inside: list[ASRToken] = []
    for token in tokens:
        if ended := builder.push(token):
            yield ended, tuple(inside)
            inside.clear()
        inside.append(token)
    if last := builder.flush():
        yield last, tuple(inside)


def srt_text(tokens: Iterable[ASRToken]) -> str:
    """Return the content of a SubRip file with *tokens*; empty without tokens."""
    segments = segments_from_tokens(tokens)
    return "".join(srt_cue(number, segment) for number, segment in enumerate(segments, 1))


def vtt_text(tokens: Iterable[ASRToken]) -> str:
    """Return the content of a WebVTT file with *tokens*; only the header without tokens."""
    segments = segments_from_tokens(tokens)
    cues = [vtt_cue(number, segment) for number, segment in enumerate(segments, 1)]
    return VTT_HEADER + "".join(cues)


def text_cue(number: int, segment: Segment) -> str:
    """Return a line of text, with its speaker in front and its translation below, if any."""
    del number
    speaker = "" if segment.speaker is None else f"{plain(str(segment.speaker))}: "
    translation = f"  {plain(segment.translation)}\n" if segment.translation else ""
    return f"{speaker}{plain(segment.text)}\n{translation}"


def srt_cue(number: int, segment: Segment) -> str:
    """Return a SubRip cue; *number* counts from 1."""
    lines = [" ".join(line.split()).replace("-->", "->") for line in _lines(segment)]
    if segment.speaker is not None:
        lines[0] = f"{segment.speaker}: {lines[0]}"
    span = f"{_stamp(segment.start, ',')} --> {_stamp(segment.end, ',')}"
    text = "\n".join(map(printable, lines))
    return f"{number}\n{span}\n{text}\n\n"


def vtt_cue(number: int, segment: Segment) -> str:
    """Return a WebVTT cue with the speaker as its voice; WebVTT needs no *number*."""
    del number
    text = "\n".join(map(_escaped, _lines(segment)))
    if segment.speaker is not None:
        text = f"<v {_escaped(str(segment.speaker))}>{text}"
    return f"{_stamp(segment.start, '.')} --> {_stamp(segment.end, '.')}\n{text}\n\n"


def _lines(segment: Segment) -> list[str]:
    if not segment.translation:
        return [segment.text]
    return [segment.text, segment.translation]


def _escaped(text: str) -> str:
    text = printable(" ".join(text.split()))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _stamp(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, milliseconds = divmod(milliseconds, 1000)
    return f"{hours:02}:{minutes:02}:{whole:02}{point}{milliseconds:03}"
