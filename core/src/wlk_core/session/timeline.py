"""Arrange the events of a session as lines of text and pauses, for captions and transcripts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort_right
import math
from typing import TYPE_CHECKING, TypeAlias

import attrs

from wlk_core.processor import EPS
from wlk_core.segments import SegmentBuilder
from wlk_core.session.events import (
    Commit,
    Endpoint,
    SilenceSpan,
    SpeakerTurn,
    SpeechStarted,
    Translation,
)
from wlk_core.tokens import Silence

if TYPE_CHECKING:
    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken, SpeakerSpan, TranslatedText

__all__ = ["Line", "PauseLine", "TextLine", "Timeline"]

_MIN_SECONDS = 1e-3  # a token without length still overlaps the speaker at its time


@attrs.frozen(kw_only=True)
class TextLine:
    """
    Consecutive tokens of one speaker, as long as a caption.

    `translation` is None if there is none; several are joined with a space.
    """

    tokens: tuple[ASRToken, ...]
    translation: str | None = None

    @property
    def start(self) -> float:
        """Stream time of the first token, in seconds."""
        return self.tokens[0].start

    @property
    def end(self) -> float:
        """Stream time at which the last token ends, in seconds."""
        return max(token.end for token in self.tokens)

    @property
    def text(self) -> str:
        """The text without surrounding white space."""
        return "".join(token.text for token in self.tokens).strip()

    @property
    def speaker(self) -> int | str | None:
        """The speaker of all tokens, None if unknown."""
        return self.tokens[0].speaker


@attrs.frozen(kw_only=True)
class PauseLine:
    """A pause between two stream times in seconds; an open one ends with the audio received."""

    start: float
    end: float
    is_open: bool = False


Line: TypeAlias = TextLine | PauseLine


class Timeline:
    """
    Arrange the events of a session in lines, in order of their times.

    * A text line ends where a caption ends (`SegmentBuilder`), at a pause and at another speaker.
    * Adjacent pauses are merged; the last one may be open.
    * A token belongs to the speaker whose spans overlap it longest.  A late span relabels earlier
      tokens; it neither drops nor duplicates any.
    * A translation belongs to the text line that it overlaps longest; if it overlaps none, to the
      last one that begins before it, else to the first.

    An update costs time for the lines that change, not for those before them.
    """

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._tokens: list[ASRToken] = []  # as they were committed
        self._token_times = _Times()
        self._pauses: list[Silence] = []
        self._open_pause: PauseLine | None = None
        self._spans: list[SpeakerSpan] = []  # by start
        self._span_times = _Times()
        self._translations: list[TranslatedText] = []  # by start
        self._translation_times = _Times()
        self._owners: list[_Row | None] = []  # the row of each translation

    @property
    def lines(self) -> tuple[Line, ...]:
        """All lines so far."""
        return self.lines_from(0)

    def lines_from(self, index: int) -> tuple[Line, ...]:
        """Return the lines from *index* on, such as an index that `add` returned."""
        last = () if self._open_pause is None else (self._open_pause,)
        return (*(row.line for row in self._rows[index:]), *last)

    def add(self, event: Event) -> int:
        """
        Apply an event; return the index of the first line that it may have changed.

        To update a copy of the lines: ``copy[index:] = timeline.lines_from(index)``.
        """
        self.advance(event.audio_time)
        changed = len(self._rows)
        match event:
            case Commit(tokens):
                changed = self._add_tokens(tokens)
            case SilenceSpan(pause):
                self._open_pause = None
                changed = self._add_pause(pause)
            case Endpoint(time, "silence" | "turn-detector"):
                end = max(time, event.audio_time)
                self._open_pause = PauseLine(start=time, end=end, is_open=True)
            case SpeechStarted():
                self._open_pause = None
            case SpeakerTurn(span):
                changed = self._add_span(span)
            case Translation(text):
                changed = self._add_translation(text)
        return changed

    def advance(self, audio_time: float) -> None:
        """Extend an open pause to *audio_time*; a session reports no events during a pause."""
        if self._open_pause is not None:
            end = max(self._open_pause.end, audio_time)
            self._open_pause = attrs.evolve(self._open_pause, end=end)

    def _add_tokens(self, tokens: tuple[ASRToken, ...]) -> int:
        if not tokens:
            return len(self._rows)
        for token in tokens:
            self._tokens.append(token)
            self._token_times.insert(len(self._token_times), token.end)
        return self._rebuild(len(self._rows) - 1)

    def _add_pause(self, pause: Silence) -> int:
        last = self._pauses[-1] if self._pauses else None
        if (
            last is not None
            and pause.start <= last.end + EPS
            and not (self._tokens and self._tokens[-1].start >= last.end - EPS)
        ):
            self._pauses[-1] = Silence(last.start, max(last.end, pause.end))
        else:
            self._pauses.append(pause)
        return self._rebuild(len(self._rows) - 1)

    def _add_span(self, span: SpeakerSpan) -> int:
        index = bisect_right(self._spans, span.start, key=_start)
        self._spans.insert(index, span)
        self._span_times.insert(index, span.end)
        first = self._token_times.first_after(span.start - _MIN_SECONDS)
        if first == len(self._tokens) or self._tokens[first].start > span.end:
            return len(self._rows)
        return self._rebuild(bisect_right(self._rows, first, key=lambda row: row.tokens_before) - 1)

    def _add_translation(self, text: TranslatedText) -> int:
        index = bisect_right(self._translations, text.start, key=_start)
        self._translations.insert(index, text)
        self._translation_times.insert(index, text.end)
        self._owners.insert(index, None)
        return self._assign(index, index + 1, len(self._rows))

    def _rebuild(self, index: int) -> int:
        """
        Rebuild the lines from the one before *index* on; return the first that may differ.

        That one is included because its end depends on the first token after it.
        """
        start = max(0, index - 1)
        dropped = self._rows[start:]
        tokens = dropped[0].tokens_before if dropped else 0
        pauses = dropped[0].pauses_before if dropped else 0
        time = dropped[0].line.start if start else -math.inf
        del self._rows[start:]
        self._build(tokens, pauses)
        first = self._translation_times.first_after(time)
        for text in (text for row in dropped for text in row.texts):
            first = min(first, bisect_left(self._translations, text.start, key=_start))
        for position in range(first, len(self._translations)):
            if self._owners[position] in dropped:
                self._owners[position] = None
        return self._assign(first, len(self._translations), start)

    def _build(self, tokens: int, pauses: int) -> None:
        """Append the lines of the tokens and pauses from these indices on."""
        builder = SegmentBuilder()
        line: list[ASRToken] = []

        def end_line() -> None:
            if line:
                before = tokens - len(line)
                self._rows.append(_Row(TextLine(tokens=tuple(line)), before, pauses))
                line.clear()

        for token in map(self._labelled, self._tokens[tokens:]):
            while pauses < len(self._pauses) and self._pauses[pauses].end <= token.start + EPS:
                end_line()
                builder.flush()
                self._rows.append(_Row(_pause_line(self._pauses[pauses]), tokens, pauses))
                pauses += 1
            if builder.push(token) is not None:
                end_line()
            line.append(token)
            tokens += 1
        end_line()
        for pause in self._pauses[pauses:]:
            self._rows.append(_Row(_pause_line(pause), tokens, pauses))
            pauses += 1

    def _assign(self, first: int, stop: int, changed: int) -> int:
        """Assign translations to rows; return the first row that changed, at most *changed*."""
        for position in range(first, stop):
            text = self._translations[position]
            before, index = self._owners[position], self._owner(text)
            after = None if index is None else self._rows[index]
            self._owners[position] = after
            if before is not after and before is not None:
                before.texts.remove(text)
                before.translate()
                changed = min(changed, self._index(before))
            if index is not None and after is not None and before is not after:
                insort_right(after.texts, text, key=_start)
                after.translate()
                changed = min(changed, index)
        return changed

    def _index(self, row: _Row) -> int:
        """Return the index of a row, which its rank identifies."""
        return bisect_left(self._rows, row.rank, key=lambda other: other.rank)

    def _owner(self, text: TranslatedText) -> int | None:
        """Return the index of the text line that a translation belongs to, if any."""
        best, best_overlap = None, 0.0
        index = bisect_right(self._rows, text.start, key=lambda row: row.line.start) - 1
        nearest = index
        while nearest >= 0 and isinstance(self._rows[nearest].line, PauseLine):
            nearest -= 1
        for position in range(max(0, nearest), len(self._rows)):
            line = self._rows[position].line
            if line.start >= text.end and position > nearest:
                break
            overlap = min(line.end, text.end) - max(line.start, text.start)
            if isinstance(line, TextLine) and overlap > best_overlap:
                best, best_overlap = position, overlap
        if best is not None:
            return best
        if nearest >= 0:
            return nearest
        texts = (i for i, row in enumerate(self._rows) if isinstance(row.line, TextLine))
        return next(texts, None)

    def _labelled(self, token: ASRToken) -> ASRToken:
        """Return the token with the speaker whose spans overlap it longest, if any do."""
        start, end = token.start, max(token.end, token.start + _MIN_SECONDS)
        seconds: dict[int | str, float] = {}
        for span in self._spans[self._span_times.first_after(start) :]:
            if span.start >= end:
                break
            overlap = min(end, span.end) - max(start, span.start)
            if overlap > 0:
                seconds[span.speaker] = seconds.get(span.speaker, 0.0) + overlap
        if not seconds:
            return token
        return attrs.evolve(token, speaker=max(seconds, key=seconds.__getitem__))


@attrs.define(eq=False)
class _Row:
    """A line, the number of tokens and pauses before it, and its translations by start."""

    line: Line
    tokens_before: int
    pauses_before: int
    texts: list[TranslatedText] = attrs.field(factory=list)

    @property
    def rank(self) -> tuple[int, int]:
        return self.tokens_before, self.pauses_before

    def translate(self) -> None:
        """Update the line with its translations."""
        assert isinstance(self.line, TextLine)  # noqa: S101 -- pauses own no translation
        joined = " ".join(stripped for text in self.texts if (stripped := text.text.strip()))
        self.line = attrs.evolve(self.line, translation=joined or None)


class _Times:
    """The ends of items sorted by start, with a running maximum for binary search."""

    def __init__(self) -> None:
        self._ends: list[float] = []
        self._latest: list[float] = []  # the latest of the ends up to each item

    def __len__(self) -> int:
        return len(self._ends)

    def insert(self, index: int, end: float) -> None:
        """Insert an item, in time linear in the items after it."""
        self._ends.insert(index, end)
        del self._latest[index:]
        latest = self._latest[-1] if self._latest else -math.inf
        for later in self._ends[index:]:
            latest = max(latest, later)
            self._latest.append(latest)

    def first_after(self, time: float) -> int:
        """Return the index of the first item that ends after *time*."""
        return bisect_right(self._latest, time)


def _pause_line(pause: Silence) -> PauseLine:
    return PauseLine(start=pause.start, end=pause.end)


def _start(item: SpeakerSpan | TranslatedText) -> float:
    return item.start
