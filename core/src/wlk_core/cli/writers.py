"""Results in each format: written as the events of a session happen, or as a whole document."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
import wave

import attrs

from wlk_core.captions import VTT_HEADER, CaptionBuilder, srt_cue, srt_text, vtt_cue, vtt_text
from wlk_core.cli.outputs import SUFFIXES, FileOutput, replace_file
from wlk_core.segments import SegmentBuilder, segments_from_tokens
from wlk_core.session import (
    Commit,
    Endpoint,
    HypothesisChange,
    SilenceSpan,
    SpeakerTurn,
    Timeline,
)
from wlk_core.session.records import round_seconds, segment_record, silence_record, token_record
from wlk_core.untrusted import ACTIVE, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_core.cli.outputs import StandardOutput
    from wlk_core.processor import StreamStats
    from wlk_core.segments import Segment
    from wlk_core.session import End, LatencySummary
    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken, Silence

__all__ = [
    "SAVE_STYLES",
    "ArrayOutput",
    "Outcome",
    "Output",
    "WavFile",
    "Writer",
    "new_save",
    "new_writer",
]

SAVE_STYLES = {SUFFIXES[style]: style for style in ("text", "srt", "vtt", "json")} | {".wav": "wav"}

_REWRITE_SECONDS = 5.0  # of audio after which a document is rewritten within an utterance
_MAX_WAV_BYTES = 2**32 - 2**20  # sizes in the header have 32 bits


@attrs.define(kw_only=True)
class Outcome:
    """What is known of one recording's session, so far or at its end."""

    file: str  #: as it was named, as is the model
    backend: str
    model: str | None
    language: str | None = None  #: the language forced, else the one last detected
    audio_time: float = 0.0  #: the audio received so far, at the end the duration
    stats: StreamStats | None = None
    latency: LatencySummary | None = None  #: emission latency, known at the end
    wall_seconds: float | None = None  #: how long it took, known at the end
    has_words: bool = False
    incomplete: str | None = None  #: why it was not transcribed to its end, None where it was

    def add(self, event: Event) -> None:
        """Update it from an event."""
        self.audio_time = event.audio_time
        for token in event.tokens if isinstance(event, Commit) else ():
            self.language = token.detected_language or self.language
            self.has_words = True

    def end(self, event: End, wall_seconds: float) -> None:
        """Update it from the last event, which has the figures of the session."""
        self.add(event)
        self.stats, self.latency, self.wall_seconds = event.stats, event.latency, wall_seconds

    def header(self) -> dict[str, Any]:
        """Return the fields that name a result."""
        return {
            "file": self.file,
            "backend": self.backend,
            "model": self.model,
            "language": self.language,
            "duration": round_seconds(self.audio_time),
        }

    def figures(self) -> dict[str, Any]:
        """Return the counters, empty where they are not known."""
        return {} if self.stats is None else _rounded(self.stats)


@attrs.define
class TextWriter:
    """Words as they are committed, a line for each caption."""

    _output: Output
    _builder: SegmentBuilder = attrs.field(factory=SegmentBuilder)
    _is_new_line: bool = True

    def write(self, event: Event, outcome: Outcome) -> None:
        """Write committed words."""
        del outcome
        if isinstance(event, Commit):
            self._output.write("".join(map(self._spaced, event.tokens)))

    def finish(self, outcome: Outcome) -> None:
        """End the last line."""
        self._output.write("" if self._is_new_line else "\n")
        self._output.close(is_complete=outcome.incomplete is None)

    def _spaced(self, token: ASRToken) -> str:
        turns = self._builder.push(token) is not None and not self._is_new_line
        text = plain(token.text)
        text = text.lstrip() if turns or self._is_new_line else text
        self._is_new_line = self._is_new_line and not text
        return f"\n{text}" if turns else text


@attrs.define
class CaptionWriter:
    """Captions as `cue` formats them, below `header`, each when it is complete."""

    _output: Output
    _cue: Callable[[int, Segment], str]
    _header: str = ""
    _number: int = 0
    _builder: CaptionBuilder = attrs.field(factory=CaptionBuilder)

    def write(self, event: Event, outcome: Outcome) -> None:
        """Write the captions that committed words ended."""
        del outcome
        for token in event.tokens if isinstance(event, Commit) else ():
            self._write(self._builder.push(token))

    def finish(self, outcome: Outcome) -> None:
        """Write the last caption; without any, the header alone."""
        self._write(self._builder.flush())
        is_complete = outcome.incomplete is None
        self._output.write(self._header if is_complete and not self._number else "")
        self._output.close(is_complete=is_complete)

    def _write(self, segment: Segment | None) -> None:
        if segment is not None:
            self._number += 1
            header = self._header if self._number == 1 else ""
            self._output.write(header + self._cue(self._number, segment))


@attrs.define
class JSONLinesWriter:
    """A JSON object a line for each event that scripts get; failures that pass are logged."""

    _output: Output

    def write(self, event: Event, outcome: Outcome) -> None:
        """Write the event."""
        del outcome
        if isinstance(event, Commit):
            fields: dict[str, Any] = {"tokens": list(map(token_record, event.tokens))}
            self._write("commit", event.audio_time, fields)
        elif isinstance(event, HypothesisChange):
            tokens = list(map(token_record, event.transcript.tokens))
            fields = {"text": event.transcript.text, "tokens": tokens}
            self._write("hypothesis", event.audio_time, fields)
        elif isinstance(event, SilenceSpan):
            self._write("silence", event.audio_time, silence_record(event.silence))

    def finish(self, outcome: Outcome) -> None:
        """Write the end, if the session came to it."""
        if outcome.wall_seconds is not None:
            figures = {
                "latency": None if outcome.latency is None else _rounded(outcome.latency),
                "wall_seconds": round_seconds(outcome.wall_seconds),
                "stats": outcome.figures(),
            }
            self._write("end", outcome.audio_time, outcome.header() | figures)
        self._output.close(is_complete=outcome.incomplete is None)

    def _write(self, kind: str, audio_time: float, fields: dict[str, Any]) -> None:
        record = {"event": kind, "audio_time": round_seconds(audio_time)} | fields
        self._output.write(json_text(record) + "\n")


@attrs.define
class DocumentWriter:
    """
    A whole document at the end; with `is_live` also after each utterance, and within a long one.

    Words have the speakers that are known by then, because a speaker comes after the words.  Until
    the end a JSON document has the field "incomplete".
    """

    _put: Callable[[str], None]  # replaces what was put before
    _style: str
    _is_live: bool = False
    _timeline: Timeline = attrs.field(factory=Timeline)
    _silences: list[Silence] = attrs.field(factory=list)
    _written: float = 0.0  # stream time at which it was put last

    def write(self, event: Event, outcome: Outcome) -> None:
        """Collect the event; write where an utterance ended, or five seconds after the last."""
        self._timeline.add(event)
        if isinstance(event, SilenceSpan):
            self._silences.append(event.silence)
        is_news = isinstance(event, Commit | SpeakerTurn)
        is_due = is_news and event.audio_time - self._written >= _REWRITE_SECONDS
        if self._is_live and (is_due or isinstance(event, Endpoint)):
            self._written = event.audio_time
            self.finish(attrs.evolve(outcome, incomplete="still running"))

    def finish(self, outcome: Outcome) -> None:
        """Write the document, unless there are no words because of a failure."""
        if outcome.incomplete is not None and not outcome.has_words:
            return
        self._put(self._text(outcome, self._timeline.tokens))

    def _text(self, outcome: Outcome, tokens: Sequence[ASRToken]) -> str:
        if self._style == "srt":
            return srt_text(tokens)
        if self._style == "vtt":
            return vtt_text(tokens)
        segments = segments_from_tokens(tokens)
        if self._style == "text":
            speakers = ["" if each.speaker is None else f"{each.speaker}: " for each in segments]
            pairs = zip(speakers, segments, strict=True)
            return "".join(f"{plain(speaker + segment.text)}\n" for speaker, segment in pairs)
        reason = {} if outcome.incomplete is None else {"incomplete": outcome.incomplete}
        record = {
            **outcome.header(),
            **reason,
            "text": "".join(token.text for token in tokens).strip(),
            "tokens": list(map(token_record, tokens)),
            "segments": list(map(segment_record, segments)),
            "silences": list(map(silence_record, self._silences)),
            "stats": outcome.figures(),
        }
        return json_text(record, indent=2) + "\n"


@attrs.define
class ArrayOutput:
    """The objects of several files in one JSON array, valid once it is ended."""

    _output: Output
    _is_empty: bool = True

    def write(self, text: str) -> None:
        """Write one object."""
        self._output.write(("[\n" if self._is_empty else ",\n") + text.rstrip("\n"))
        self._is_empty = False

    def close(self, *, is_complete: bool = True) -> None:
        """Leave it open for the next object."""

    def end(self) -> None:
        """Close the bracket."""
        self._output.write("[]\n" if self._is_empty else "\n]\n")


#: Writes text so that it is there even if the program ends now.
Output: TypeAlias = "StandardOutput | FileOutput | ArrayOutput"
#: One format: `write` what can be written now, `finish` with the rest, also after a failure.
Writer: TypeAlias = TextWriter | CaptionWriter | JSONLinesWriter | DocumentWriter


class WavFile:
    """The captured audio, 16 bits in one channel; what was not captured is silence."""

    def __init__(self, path: Path, rate: int) -> None:
        self._path = path
        self._rate = rate
        self._bytes = 0
        self._file = open(path, "wb")  # noqa: PTH123, SIM115 -- closed by `finish`
        self._wave = wave.open(self._file)  # noqa: SIM115 -- as above
        self._wave.setparams((1, 2, rate, 0, "NONE", ""))

    def add_audio(self, samples: bytes, lost_seconds: float) -> None:
        """Append int16 samples; the header is valid after each call.  OSError names the file."""
        lost = 2 * round(lost_seconds * self._rate)
        self._bytes += lost + len(samples)
        if self._bytes > _MAX_WAV_BYTES:
            self.finish()
            raise OSError(f"{self._path} is full: a wav file holds 4 GB; the transcript goes on")
        try:
            for start in range(0, lost, 2 * self._rate):  # a machine may sleep for hours
                self._wave.writeframes(bytes(min(lost - start, 2 * self._rate)))
            self._wave.writeframes(samples)
            self._file.flush()
        except OSError as error:
            with suppress(OSError):
                self.finish()  # what was written so far can be played
            raise OSError(f"cannot write {self._path}: {error.strerror or error}") from error

    def finish(self) -> None:
        """Close the file."""
        self._wave.close()
        self._file.close()


def json_text(record: dict[str, Any], *, indent: int | None = None) -> str:
    """Return JSON in which terminal control sequences are escapes."""
    text = json.dumps(record, ensure_ascii=False, indent=indent)
    lines = text.split("\n")  # line breaks of JSON's own; those of strings are escapes already
    return "\n".join(ACTIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", line) for line in lines)


def _rounded(record: Any) -> dict[str, Any]:
    """Return the fields of *record*, seconds with four digits."""
    fields = attrs.asdict(record).items()
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in fields}


def new_writer(style: str, output: Output | Path, *, by_line: bool = False) -> Writer:
    """Return a writer to *output*, or to the file of a path; `by_line` holds back open captions."""
    if style == "json":
        put = partial(replace_file, output) if isinstance(output, Path) else output.write
        return DocumentWriter(put, style)
    output = FileOutput(output) if isinstance(output, Path) else output
    if style == "text" and by_line:
        return CaptionWriter(output, lambda _number, segment: f"{plain(segment.text)}\n")
    if style == "text":
        return TextWriter(output)
    if style == "srt":
        return CaptionWriter(output, srt_cue)
    return CaptionWriter(output, vtt_cue, VTT_HEADER) if style == "vtt" else JSONLinesWriter(output)


def new_save(path: Path, *, has_speakers: bool) -> Writer:
    """Return a writer that keeps the file *path* up to date, by its suffix; not for sound."""
    style = SAVE_STYLES[path.suffix.lower()]
    if style == "json" or has_speakers:
        return DocumentWriter(partial(replace_file, path), style, is_live=True)
    return new_writer(style, path)
