"""Captions from committed tokens: segments, JSON records, SubRip and WebVTT cues."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
import math
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from wlk_core.errors import OptionError
from wlk_core.streaming import is_unspaced
from wlk_core.tokens import ASRToken
from wlk_core.untrusted import plain, printable, shown
from wlk_frameworks.sentences import ends_sentence
from wlk_live.captions.line_breaks import (
    Lines,
    binds_to,
    column_count,
    continues_character,
    ends_abbreviation,
    ends_clause,
    may_divide,
    wrapped,
)
from wlk_live.speakers import speaker_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wlk_core.tokens import TranslatedText

#: What captions of a translated session have.
Languages: TypeAlias = Literal["both", "speech", "translation"]
VTT_HEADER = "WEBVTT\n\n"

_CUE_SECONDS = 0.8  # the least time that a cue is shown: a shorter one is gone before it is read
_WORD_FACTOR = 2  # even a word without spaces is divided at this multiple of the limits
_MIN_SECONDS = 0.001  # players never show a cue that ends when it begins
_MIN_SHARE = 1 / 3  # of a full caption: one that has to end does not end after an earlier clause
_BREATH_SECONDS = 0.3  # a pause that divides clauses where punctuation does not


def _require_above_zero(_layout: Layout, field: attrs.Attribute[int], value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise OptionError(f"expected `{field.name}` as a whole number above 0, got {shown(value)}")


def _names(value: object) -> tuple[str, ...]:
    names = () if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
    if value and not (names and all(isinstance(name, str) and name.strip() for name in names)):
        raise OptionError(f"expected `speaker_names` as a list of names, got {shown(value)}")
    return names


@attrs.frozen(kw_only=True)
class Layout:
    """
    The size of captions, the names of speakers in them, and their languages.

    By default a caption has two lines of 42 columns, as subtitles do.  A wide character, as in
    Chinese or Japanese, takes two columns.
    """

    max_line_width: int = attrs.field(default=42, validator=_require_above_zero)
    max_lines: int = attrs.field(default=2, validator=_require_above_zero)
    #: in place of "Speaker 1", "Speaker 2" and so on
    speaker_names: Sequence[str] = attrs.field(default=(), converter=_names)
    languages: Languages = "both"

    def voice(self, speaker: int | str | None) -> str:
        """Return what precedes the words of a speaker in text and SubRip."""
        return "" if speaker is None else f"{plain(speaker_name(speaker, self.speaker_names))}: "

    def lines(self, speaker: int | str | None) -> Lines:
        """Return the lines of a caption without words."""
        return Lines(self.max_line_width, column_count(self.voice(speaker)))


DEFAULT_LAYOUT = Layout()


@attrs.frozen
class Segment:
    """A caption: text of one speaker between two stream times in seconds, and its translation."""

    start: float
    end: float
    text: str
    speaker: int | str | None = None
    translation: str | None = None
    #: until when its cue is shown: at least 0.8 s, unless the next caption begins earlier
    shown_until: float | None = attrs.field(default=None, eq=False, kw_only=True)
    #: the words of a caption that was made from words
    tokens: tuple[ASRToken, ...] = attrs.field(default=(), eq=False, repr=False, kw_only=True)


@attrs.define(kw_only=True)
class SegmentBuilder:
    """
    Build captions from tokens as they are committed, in constant memory.

    A caption ends at a pause of `max_gap` seconds, at a change of speaker, and at the end of a
    sentence if 0.8 s remain to show it.  Before it would last longer than `max_seconds` or need
    more lines than `layout` has, it ends after its last clause or short pause or, without one in
    its last two thirds, between words; the words after that place begin the next caption.  With
    `is_shown`, words were shown already, so it ends before the new word.

    Captions never overlap.  A caption never begins inside a word or a character, or with closing
    punctuation; in scripts without spaces it may begin at any other character.  Only a word that
    does not fit alone is divided, at twice the limits, and never inside a token.
    """

    layout: Layout = DEFAULT_LAYOUT
    language: str | None = None  #: of tokens without a detected language
    is_shown: bool = False  #: whether words are shown before their caption has ended
    max_gap: float = 0.8
    max_seconds: float = 7.0
    text: str = attrs.field(default="", init=False)  #: the text of the current caption
    _tokens: list[ASRToken] = attrs.field(factory=list, init=False)
    _lines: Lines = attrs.field(init=False)
    _end: float = attrs.field(default=0.0, init=False)  # of the last caption

    def push(self, token: ASRToken) -> Segment | None:
        """Append the next token; return the caption that it ended, if any."""
        ended = None
        if self._tokens and (place := self._place_before(token)):
            ended = self._end_caption(place, token.start)
        self._append(token)
        return ended

    def flush(self) -> Segment | None:
        """Return the current caption, if any, and begin a new one."""
        return self._end_caption(len(self._tokens), math.inf) if self._tokens else None

    def _append(self, token: ASRToken) -> None:
        if not self._tokens:
            self._lines = self.layout.lines(token.speaker)
        self._tokens.append(token)
        self.text += token.text
        self._lines = self._lines.extended(token.text)

    def _end_caption(self, place: int, next_start: float) -> Segment:
        """Return the tokens before *place* as a caption, and keep the others."""
        tokens, rest = self._tokens[:place], self._tokens[place:]
        self._tokens, self.text = [], ""
        for token in rest:
            self._append(token)
        next_start = rest[0].start if rest else next_start
        start = max(tokens[0].start, self._end)
        end = max(start + _MIN_SECONDS, min(max(token.end for token in tokens), next_start))
        self._end = end
        return Segment(
            start,
            end,
            "".join(token.text for token in tokens).strip(),
            tokens[0].speaker,
            shown_until=max(end, min(start + _CUE_SECONDS, next_start)),
            tokens=tuple(tokens),
        )

    def _place_before(self, token: ASRToken) -> int:
        """Return how many tokens form a caption that ends before *token* is added, 0 if none do."""
        first, last, count = self._tokens[0], self._tokens[-1], len(self._tokens)
        if token.speaker != last.speaker:
            return count
        if continues_character(self.text, token.text):
            return 0
        is_pause = token.start - last.end >= self.max_gap
        language = token.detected_language or self.language
        is_sentence = token.start - first.start >= _CUE_SECONDS and ends_sentence(
            self.text, token.text, language=language
        )
        if (is_pause or is_sentence) and not binds_to(self.text, token.text):
            return count
        if self._fits(first, self._lines, token):
            return 0
        if place := self._last_place(token):
            return place
        seconds = (token.end - first.start) / _WORD_FACTOR
        lines = self._lines.extended(token.text).count / _WORD_FACTOR
        is_far = seconds > self.max_seconds or lines > self.layout.max_lines
        return count if is_pause or is_far else 0

    def _fits(self, first: ASRToken, lines: Lines, token: ASRToken) -> bool:
        """Return whether *token* fits behind *lines*, which begin with the token *first*."""
        is_short = token.end - first.start <= self.max_seconds
        return is_short and lines.extended(token.text).count <= self.layout.max_lines

    def _last_place(self, token: ASRToken) -> int:
        """Return the best place to end a caption that has no room for *token*, 0 if none is."""
        if self.is_shown:
            return len(self._tokens) if may_divide(self.text, token.text) else 0
        tokens, latest, worst = [*self._tokens, token], 0, 0
        least = self.layout.max_line_width * self.layout.max_lines * _MIN_SHARE
        for place in range(len(self._tokens), 0, -1):
            before = "".join(each.text for each in tokens[:place])
            after = "".join(each.text for each in tokens[place:])
            first, empty = tokens[place], self.layout.lines(token.speaker)
            rest = empty.extended(after[: len(after) - len(token.text)])
            if (latest or worst) and not self._fits(first, rest, token):
                break
            if not may_divide(before, after):
                continue
            is_clause = first.start - tokens[place - 1].end >= _BREATH_SECONDS
            if (is_clause or ends_clause(before, after)) and column_count(before.strip()) >= least:
                return place
            if ends_abbreviation(before):
                worst = worst or place
            else:
                latest = latest or place
        return latest or worst


def segments_from_tokens(
    tokens: Iterable[ASRToken], layout: Layout = DEFAULT_LAYOUT, *, language: str | None = None
) -> tuple[Segment, ...]:
    """Return the captions of a finished token sequence; empty without tokens."""
    builder = SegmentBuilder(layout=layout, language=language)
    segments = [*map(builder.push, tokens), builder.flush()]
    return tuple(segment for segment in segments if segment is not None)


def segments_with_tokens(
    tokens: Iterable[ASRToken],
) -> Iterator[tuple[Segment, tuple[ASRToken, ...]]]:
    """Yield each caption of a finished token sequence with its tokens."""
    for segment in segments_from_tokens(tokens):
        yield segment, segment.tokens


def translated_tokens(
    translation: TranslatedText, speaker: int | str | None = None
) -> tuple[ASRToken, ...]:
    """
    Return the words of a translation as tokens, for captions without the words that were said.

    A translation has no word times: its seconds are divided by the columns of its words.
    """
    text = " ".join(translation.text.split())
    text = text if is_unspaced(text[:1]) else f" {text}"
    starts = [
        at
        for at, (last, letter) in enumerate(pairwise(text), 1)
        if letter == " " or (last != " " and may_divide(last, letter))
    ]
    total, seconds = max(1, column_count(text)), translation.end - translation.start
    times = [
        translation.start + seconds * column_count(text[:at]) / total
        for at in (0, *starts, len(text))
    ]
    words = [text[begin:end] for begin, end in pairwise([0, *starts, len(text)])]
    return tuple(
        ASRToken(start, end, word, speaker=speaker, detected_language=translation.language)
        for word, (start, end) in zip(words, pairwise(times), strict=True)
        if word.strip()
    )


def srt_text(
    tokens: Iterable[ASRToken], layout: Layout = DEFAULT_LAYOUT, *, language: str | None = None
) -> str:
    """Return the content of a SubRip file with *tokens*; empty without tokens."""
    segments = segments_from_tokens(tokens, layout, language=language)
    return "".join(srt_cue(number, segment, layout) for number, segment in enumerate(segments, 1))


def vtt_text(
    tokens: Iterable[ASRToken], layout: Layout = DEFAULT_LAYOUT, *, language: str | None = None
) -> str:
    """Return the content of a WebVTT file with *tokens*; only the header without tokens."""
    segments = segments_from_tokens(tokens, layout, language=language)
    cues = [vtt_cue(number, segment, layout) for number, segment in enumerate(segments, 1)]
    return VTT_HEADER + "".join(cues)


def text_cue(number: int, segment: Segment, layout: Layout = DEFAULT_LAYOUT) -> str:
    """Return a line of text, with its speaker in front and its translation below, if any."""
    del number
    translation = f"  {plain(segment.translation)}\n" if segment.translation else ""
    return f"{layout.voice(segment.speaker)}{plain(segment.text)}\n{translation}"


def srt_cue(number: int, segment: Segment, layout: Layout = DEFAULT_LAYOUT) -> str:
    """Return a SubRip cue with its speaker in front; *number* counts from 1."""
    voice = layout.voice(segment.speaker)
    text = "\n".join(line.replace("-->", "->") for line in _lines(segment, layout, voice))
    return f"{number}\n{_span(segment, ',')}\n{text}\n\n"


def vtt_cue(number: int, segment: Segment, layout: Layout = DEFAULT_LAYOUT) -> str:
    """Return a WebVTT cue with the speaker as its voice; WebVTT needs no *number*."""
    del number
    text = "\n".join(map(_escaped, _lines(segment, layout)))
    if segment.speaker is not None:
        name = speaker_name(segment.speaker, layout.speaker_names)
        text = f"<v {_escaped(printable(' '.join(name.split())))}>{text}"
    return f"{_span(segment, '.')}\n{text}\n\n"


def _lines(segment: Segment, layout: Layout, voice: str = "") -> list[str]:
    """Return the lines of the text, after *voice*, and of the translation."""
    text, width = printable(" ".join(segment.text.split())), layout.max_line_width
    lines = wrapped(text, width, indent=column_count(voice))
    lines[0] = f"{voice}{lines[0]}"
    if segment.translation:
        lines += wrapped(printable(" ".join(segment.translation.split())), width)
    return lines


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _span(segment: Segment, point: str) -> str:
    end = segment.end if segment.shown_until is None else segment.shown_until
    return f"{_stamp(segment.start, point)} --> {_stamp(end, point)}"


def _stamp(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, milliseconds = divmod(milliseconds, 1000)
    return f"{hours:02}:{minutes:02}:{whole:02}{point}{milliseconds:03}"
