"""Writers: the events of one session in one format, written as they happen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

import attrs

from wlk_core.cli import records
from wlk_core.cli.captions import CaptionBuilder, srt_cue, vtt_cue
from wlk_core.segments import Segment, SegmentBuilder, segments_from_tokens
from wlk_core.session import Commit, SilenceSpan

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.cli.destinations import Destination
    from wlk_core.cli.records import Outcome
    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken, Silence

__all__ = ["ArrayDestination", "Writer", "new_writer"]


class Writer(Protocol):
    """One format."""

    def take(self, event: Event) -> None:
        """Write what can be written now."""
        ...

    def finish(self, outcome: Outcome) -> None:
        """Write the rest, at the end of the session or after a failure; then close."""
        ...


@attrs.define
class TextWriter:
    """Words as they are committed, a line for each caption."""

    _out: Destination
    _builder: SegmentBuilder = attrs.field(factory=SegmentBuilder)
    _is_new_line: bool = True

    def take(self, event: Event) -> None:
        """Write committed words."""
        if isinstance(event, Commit):
            self._out.write("".join(map(self._placed, event.tokens)))

    def finish(self, outcome: Outcome) -> None:
        """End the last line."""
        del outcome
        self._out.write("" if self._is_new_line else "\n")
        self._out.close()

    def _placed(self, token: ASRToken) -> str:
        turns = self._builder.push(token) is not None and not self._is_new_line
        text = token.text.lstrip() if turns or self._is_new_line else token.text
        self._is_new_line = self._is_new_line and not text
        return f"\n{text}" if turns else text


@attrs.define
class LineWriter:
    """Whole captions as lines, for a terminal on which the open one is drawn elsewhere."""

    _out: Destination
    _builder: SegmentBuilder = attrs.field(factory=SegmentBuilder)

    def take(self, event: Event) -> None:
        """Write the captions that committed words ended."""
        for token in event.tokens if isinstance(event, Commit) else ():
            if ended := self._builder.push(token):
                self._out.write(f"{ended.text}\n")

    def finish(self, outcome: Outcome) -> None:
        """Write the caption that is still open."""
        del outcome
        if last := self._builder.flush():
            self._out.write(f"{last.text}\n")
        self._out.close()


@attrs.define
class JSONWriter:
    """One object at the end."""

    _out: Destination
    _tokens: list[ASRToken] = attrs.field(factory=list)
    _silences: list[Silence] = attrs.field(factory=list)

    def take(self, event: Event) -> None:
        """Keep what belongs into the object."""
        if isinstance(event, Commit):
            self._tokens += event.tokens
        elif isinstance(event, SilenceSpan):
            self._silences.append(event.silence)

    def finish(self, outcome: Outcome) -> None:
        """Write the object."""
        segments = segments_from_tokens(self._tokens)
        record = records.result_record(outcome, self._tokens, segments, self._silences)
        self._out.write(json.dumps(record, ensure_ascii=False, indent=2) + "\n")
        self._out.close()


@attrs.define
class JSONLinesWriter:
    """An object a line for each event."""

    _out: Destination

    def take(self, event: Event) -> None:
        """Write the event."""
        if (record := records.event_record(event)) is not None:
            self._write(record)

    def finish(self, outcome: Outcome) -> None:
        """Write the end, if the session came to it."""
        if outcome.wall_seconds is not None:
            self._write(records.end_record(outcome))
        self._out.close()

    def _write(self, record: dict[str, object]) -> None:
        self._out.write(json.dumps(record, ensure_ascii=False) + "\n")


@attrs.define
class SubtitleWriter:
    """Captions as `cue` writes them, below `header`."""

    _out: Destination
    _cue: Callable[[int, Segment], str]
    _header: str = ""
    _number: int = 0
    _builder: CaptionBuilder = attrs.field(factory=CaptionBuilder)

    def take(self, event: Event) -> None:
        """Write the captions that committed words ended."""
        for token in event.tokens if isinstance(event, Commit) else ():
            if ended := self._builder.push(token):
                self._write(ended)

    def finish(self, outcome: Outcome) -> None:
        """Write the last caption; without any, the header alone."""
        del outcome
        if last := self._builder.flush():
            self._write(last)
        if not self._number:
            self._out.write(self._header)
        self._out.close()

    def _write(self, segment: Segment) -> None:
        header = "" if self._number else self._header
        self._number += 1
        self._out.write(header + self._cue(self._number, segment))


@attrs.define
class ArrayDestination:
    """Collects the objects of several files in one JSON array, valid once it is ended."""

    _out: Destination
    _is_empty: bool = True

    def write(self, text: str) -> None:
        """Write one object."""
        self._out.write(("[\n" if self._is_empty else ",\n") + text.rstrip("\n"))
        self._is_empty = False

    def close(self) -> None:
        """Leave it open for the next object."""

    def end(self) -> None:
        """Close the bracket."""
        self._out.write("[]\n" if self._is_empty else "\n]\n")


def new_writer(style: str, out: Destination, *, by_line: bool = False) -> Writer:
    """Return a writer for a format; `by_line` keeps text back until its caption ends."""
    if style == "text":
        return LineWriter(out) if by_line else TextWriter(out)
    if style == "srt":
        return SubtitleWriter(out, srt_cue)
    if style == "vtt":
        return SubtitleWriter(out, vtt_cue, "WEBVTT\n\n")
    return JSONWriter(out) if style == "json" else JSONLinesWriter(out)
