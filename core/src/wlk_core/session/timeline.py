"""Arrange the events of a session as lines of text and pauses, for captions and transcripts."""

from __future__ import annotations

from bisect import bisect_right, insort_right
from itertools import accumulate
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
    from collections.abc import Iterable

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

    An update builds the lines that change, not those before them.
    """

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._tokens: list[ASRToken] = []  # as they were committed
        self._pauses: list[Silence] = []
        self._open_pause: PauseLine | None = None
        self._spans: list[SpeakerSpan] = []  # by start
        self._translations: list[TranslatedText] = []  # by start

    @property
    def lines(self) -> tuple[Line, ...]:
        """All lines so far."""
        return self.lines_from(0)

    def lines_from(self, index: int) -> tuple[Line, ...]:
        """Return the lines from *index* on, such as an index that `add` returned."""
        translations: dict[int, list[str]] = {}
        for text in self._translations:
            if (words := text.text.strip()) and (owner := self._owner(text)) is not None:
                translations.setdefault(owner, []).append(words)
        lines = [row.line for row in self._rows[index:]]
        for owner, texts in translations.items():
            if owner >= index and isinstance(line := lines[owner - index], TextLine):
                lines[owner - index] = attrs.evolve(line, translation=" ".join(texts))
        return (*lines, *(() if self._open_pause is None else (self._open_pause,)))

    def add(self, event: Event) -> int:
        """
        Apply an event; return the index of the first line that it may have changed.

        To update a copy of the lines: ``copy[index:] = timeline.lines_from(index)``.
        """
        self.advance(event.audio_time)
        match event:
            case Commit(tokens) if tokens:
                self._tokens += tokens
                return self._rebuild(len(self._rows) - 1)
            case SilenceSpan(pause):
                self._open_pause = None
                self._add_pause(pause)
                return self._rebuild(len(self._rows) - 1)
            case Endpoint(time, "silence" | "turn-detector"):
                end = max(time, event.audio_time)
                self._open_pause = PauseLine(start=time, end=end, is_open=True)
            case SpeechStarted():
                self._open_pause = None
            case SpeakerTurn(span):
                insort_right(self._spans, span, key=_start)
                return self._relabel(span)
            case Translation(text):
                insort_right(self._translations, text, key=_start)
                return self._first_owner(text)
        return len(self._rows)

    def advance(self, audio_time: float) -> None:
        """Extend an open pause to *audio_time*; a session reports no events during a pause."""
        if self._open_pause is not None:
            end = max(self._open_pause.end, audio_time)
            self._open_pause = attrs.evolve(self._open_pause, end=end)

    def _add_pause(self, pause: Silence) -> None:
        last = self._pauses[-1] if self._pauses else None
        if (
            last is not None
            and pause.start <= last.end + EPS
            and not (self._tokens and self._tokens[-1].start >= last.end - EPS)
        ):
            self._pauses[-1] = Silence(last.start, max(last.end, pause.end))
        else:
            self._pauses.append(pause)

    def _relabel(self, span: SpeakerSpan) -> int:
        """Rebuild the lines whose tokens may have another speaker now."""
        first = bisect_right(_latest_ends(self._tokens), span.start - _MIN_SECONDS)
        if first == len(self._tokens) or self._tokens[first].start > span.end:
            return len(self._rows)
        return self._rebuild(bisect_right(self._rows, first, key=lambda row: row.tokens_before) - 1)

    def _rebuild(self, index: int) -> int:
        """
        Rebuild the lines from the one before *index* on; return the first that may differ.

        That one is included because its end depends on the first token after it.
        """
        start = max(0, index - 1)
        changed = [start]
        if start:  # a translation may move to a line that is longer now
            latest = bisect_right(_latest_ends(self._translations), self._rows[start].line.start)
            changed += map(self._first_owner, self._translations[latest:])
        dropped = self._rows[start:]
        del self._rows[start:]
        self._build(*((dropped[0].tokens_before, dropped[0].pauses_before) if dropped else (0, 0)))
        return min(changed)

    def _build(self, tokens: int, pauses: int) -> None:
        """Append the lines of the tokens and pauses from these indices on."""
        builder = SegmentBuilder()
        line: list[ASRToken] = []
        latest = _latest_ends(self._spans)

        def end_line() -> None:
            if line:
                before = tokens - len(line)
                self._rows.append(_Row(TextLine(tokens=tuple(line)), before, pauses))
                line.clear()

        for token in self._tokens[tokens:]:
            while pauses < len(self._pauses) and self._pauses[pauses].end <= token.start + EPS:
                end_line()
                builder.flush()
                self._rows.append(_Row(_pause_line(self._pauses[pauses]), tokens, pauses))
                pauses += 1
            labelled = self._labelled(token, bisect_right(latest, token.start))
            if builder.push(labelled) is not None:
                end_line()
            line.append(labelled)
            tokens += 1
        end_line()
        for pause in self._pauses[pauses:]:
            self._rows.append(_Row(_pause_line(pause), tokens, pauses))
            pauses += 1

    def _first_owner(self, text: TranslatedText) -> int:
        """Return the index of the first line that a translation can belong to."""
        index = bisect_right(self._rows, text.start, key=lambda row: row.line.start) - 1
        while index >= 0 and isinstance(self._rows[index].line, PauseLine):
            index -= 1
        return max(0, index)

    def _owner(self, text: TranslatedText) -> int | None:
        """Return the index of the text line that a translation belongs to, if any."""
        best, best_overlap = None, 0.0
        first = self._first_owner(text)
        for position, row in enumerate(self._rows[first:], first):
            if row.line.start >= text.end and best is not None:
                break
            if isinstance(row.line, TextLine):
                overlap = min(row.line.end, text.end) - max(row.line.start, text.start)
                if best is None or overlap > best_overlap:
                    best, best_overlap = position, max(0.0, overlap)
        return best

    def _labelled(self, token: ASRToken, first: int) -> ASRToken:
        """Return the token with the speaker whose spans, from *first* on, overlap it longest."""
        start, end = token.start, max(token.end, token.start + _MIN_SECONDS)
        seconds: dict[int | str, float] = {}
        for span in self._spans[first:]:
            if span.start >= end:
                break
            overlap = min(end, span.end) - max(start, span.start)
            if overlap > 0:
                seconds[span.speaker] = seconds.get(span.speaker, 0.0) + overlap
        if not seconds:
            return token
        return attrs.evolve(token, speaker=max(seconds, key=seconds.__getitem__))


@attrs.frozen
class _Row:
    """A line without its translations, and the number of tokens and pauses before it."""

    line: Line
    tokens_before: int
    pauses_before: int


def _latest_ends(items: Iterable[ASRToken | SpeakerSpan | TranslatedText]) -> list[float]:
    """Return the latest end up to each item, so that those ending after a time can be bisected."""
    return list(accumulate((item.end for item in items), max))


def _pause_line(pause: Silence) -> PauseLine:
    return PauseLine(start=pause.start, end=pause.end)


def _start(item: SpeakerSpan | TranslatedText) -> float:
    return item.start
