"""Writers: the events of one session in one format, written as they happen."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from wlk_core.captions import VTT_HEADER, CaptionBuilder, srt_cue, vtt_cue
from wlk_core.cli import serialize
from wlk_core.segments import Segment, SegmentBuilder, segments_from_tokens
from wlk_core.session import Commit, SilenceSpan
from wlk_core.untrusted import ACTIVE, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from wlk_core.cli.outputs import Output
    from wlk_core.cli.serialize import Outcome
    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken, Silence

__all__ = ["ArrayOutput", "Writer", "new_writer"]


class Writer(Protocol):
    """One format."""

    def write(self, event: Event) -> None:
        """Write what can be written now."""
        ...

    def finish(self, outcome: Outcome) -> None:
        """Write the rest, at the end of the session or after a failure; then close."""
        ...


@attrs.define
class TextWriter:
    """Words as they are committed, a line for each caption."""

    _output: Output
    _builder: SegmentBuilder = attrs.field(factory=SegmentBuilder)
    _is_new_line: bool = True

    def write(self, event: Event) -> None:
        """Write committed words."""
        if isinstance(event, Commit):
            self._output.write("".join(map(self._spaced, event.tokens)))

    def finish(self, outcome: Outcome) -> None:
        """End the last line."""
        del outcome
        self._output.write("" if self._is_new_line else "\n")
        self._output.close()

    def _spaced(self, token: ASRToken) -> str:
        turns = self._builder.push(token) is not None and not self._is_new_line
        text = plain(token.text)
        text = text.lstrip() if turns or self._is_new_line else text
        self._is_new_line = self._is_new_line and not text
        return f"\n{text}" if turns else text


@attrs.define
class LineWriter:
    """Whole captions as lines, for a terminal on which the live view draws the open one."""

    _output: Output
    _builder: SegmentBuilder = attrs.field(factory=SegmentBuilder)

    def write(self, event: Event) -> None:
        """Write the captions that committed words ended."""
        for token in event.tokens if isinstance(event, Commit) else ():
            if ended := self._builder.push(token):
                self._output.write(f"{plain(ended.text)}\n")

    def finish(self, outcome: Outcome) -> None:
        """Write the caption that is still open."""
        del outcome
        if last := self._builder.flush():
            self._output.write(f"{plain(last.text)}\n")
        self._output.close()


@attrs.define
class JSONWriter:
    """One object at the end."""

    _output: Output
    _tokens: list[ASRToken] = attrs.field(factory=list)
    _silences: list[Silence] = attrs.field(factory=list)

    def write(self, event: Event) -> None:
        """Keep what belongs into the object."""
        if isinstance(event, Commit):
            self._tokens += event.tokens
        elif isinstance(event, SilenceSpan):
            self._silences.append(event.silence)

    def finish(self, outcome: Outcome) -> None:
        """Write the object."""
        segments = segments_from_tokens(self._tokens)
        record = serialize.result_record(outcome, self._tokens, segments, self._silences)
        self._output.write(json_text(record, indent=2) + "\n")
        self._output.close()


@attrs.define
class JSONLinesWriter:
    """An object a line for each event."""

    _output: Output

    def write(self, event: Event) -> None:
        """Write the event."""
        if (record := serialize.event_record(event)) is not None:
            self._write_line(record)

    def finish(self, outcome: Outcome) -> None:
        """Write the end, if the session came to it."""
        if outcome.wall_seconds is not None:
            self._write_line(serialize.end_record(outcome))
        self._output.close()

    def _write_line(self, record: dict[str, Any]) -> None:
        self._output.write(json_text(record) + "\n")


@attrs.define
class SubtitleWriter:
    """Captions as `cue` formats them, below `header`."""

    _output: Output
    _cue: Callable[[int, Segment], str]
    _header: str = ""
    _number: int = 0
    _builder: CaptionBuilder = attrs.field(factory=CaptionBuilder)

    def write(self, event: Event) -> None:
        """Write the captions that committed words ended."""
        for token in event.tokens if isinstance(event, Commit) else ():
            if ended := self._builder.push(token):
                self._write_cue(ended)

    def finish(self, outcome: Outcome) -> None:
        """Write the last caption; without any, the header alone."""
        del outcome
        if last := self._builder.flush():
            self._write_cue(last)
        if not self._number:
            self._output.write(self._header)
        self._output.close()

    def _write_cue(self, segment: Segment) -> None:
        header = "" if self._number else self._header
        self._number += 1
        self._output.write(header + self._cue(self._number, segment))


@attrs.define
class ArrayOutput:
    """Collects the objects of several files in one JSON array, valid once it is ended."""

    _output: Output
    _is_empty: bool = True

    def write(self, text: str) -> None:
        """Write one object."""
        self._output.write(("[\n" if self._is_empty else ",\n") + text.rstrip("\n"))
        self._is_empty = False

    def close(self) -> None:
        """Leave it open for the next object."""

    def end(self) -> None:
        """Close the bracket."""
        self._output.write("[]\n" if self._is_empty else "\n]\n")


def json_text(record: dict[str, Any], *, indent: int | None = None) -> str:
    """Return *record* as JSON that a terminal can show: active characters are escapes."""
    text = json.dumps(record, ensure_ascii=False, indent=indent)
    lines = text.split("\n")  # line breaks of JSON's own; those of texts are escapes already
    return "\n".join(ACTIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", line) for line in lines)


def new_writer(style: str, output: Output, *, by_line: bool = False) -> Writer:
    """Return a writer for a format; `by_line` holds text until its caption ends."""
    if style == "text":
        return LineWriter(output) if by_line else TextWriter(output)
    if style == "srt":
        return SubtitleWriter(output, srt_cue)
    if style == "vtt":
        return SubtitleWriter(output, vtt_cue, VTT_HEADER)
    return JSONWriter(output) if style == "json" else JSONLinesWriter(output)
