"""Files that ``listen --save`` keeps up to date while it runs: text, captions, JSON and sound."""

from __future__ import annotations

from contextlib import suppress
import os
from pathlib import Path
import struct
from typing import TYPE_CHECKING, BinaryIO, Protocol

import attrs
import click

from wlk_core.captions import srt_text, vtt_text
from wlk_core.cli import serialize
from wlk_core.cli.live_source import pcm16
from wlk_core.cli.outputs import FileOutput, is_regular
from wlk_core.cli.writers import json_text, new_writer
from wlk_core.segments import segments_from_tokens
from wlk_core.session import (
    Commit,
    Endpoint,
    SilenceSpan,
    SpeakerTurn,
    Timeline,
)
from wlk_core.session.timeline import TextLine
from wlk_core.untrusted import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_core.cli.serialize import Outcome
    from wlk_core.cli.writers import Writer
    from wlk_core.microphone import Captured
    from wlk_core.session.events import Event
    from wlk_core.tokens import ASRToken, Silence

__all__ = ["Save", "check_saves", "open_save"]

FORMATS = {".txt": "text", ".srt": "srt", ".vtt": "vtt", ".json": "json", ".wav": "wav"}

_HEADER = struct.Struct("<4sI4s4sIHHIIHH4sI")  # of a wav file of PCM samples
_MOST_WAV_BYTES = 2**32 - 2**20  # sizes in the header have 32 bits
_WHOLE_SECONDS = 5.0  # of audio after which a document is written anew within an utterance


class Save(Protocol):
    """One file."""

    def add_audio(self, captured: Captured) -> None:
        """Append what was captured."""
        ...

    def add_event(self, event: Event, outcome: Outcome) -> None:
        """Write what an event brings."""
        ...

    def finish(self, outcome: Outcome) -> None:
        """Write the rest and close; may be called after a failure."""
        ...


def check_saves(paths: Sequence[str], *, is_forced: bool, recording: str | None) -> list[Path]:
    """
    Return the paths of ``--save``.

    Raises:
        click.UsageError: a path has no known ending or no directory, comes twice, exists, or is
            that of the *recording* that is played.

    """
    checked: list[Path] = []
    for text in paths:
        path = Path(text)
        if path.suffix.lower() not in FORMATS:
            raise click.UsageError(
                f"--save {text}: expected a file that ends with {', '.join(FORMATS)}"
            )
        if not path.parent.is_dir():
            raise click.UsageError(f"--save {text}: there is no directory {path.parent}")
        if recording is not None and os.path.realpath(path) == os.path.realpath(recording):
            raise click.UsageError(f"--save {text} would overwrite the recording that is played")
        if os.path.realpath(path) in map(os.path.realpath, checked):
            raise click.UsageError(f"--save {text} is given twice")
        if not is_forced and is_regular(path) and path.exists() and path.stat().st_size:
            raise click.UsageError(f"--save {text}: it exists; replace it with --force")
        checked.append(path)
    return checked


def open_save(path: Path, rate: int, *, has_speakers: bool = False) -> Save:
    """
    Return the file of one path; *rate* is that of the captured samples.

    With speakers every text is written anew, because a speaker comes after the words.
    """
    style = FORMATS[path.suffix.lower()]
    if style == "wav":
        return WavSave(path, rate)
    if style == "json" or has_speakers:
        return WholeSave(path, _DOCUMENTS[style])
    return TextSave(new_writer(style, FileOutput(path, option="--save")))


@attrs.define
class TextSave:
    """Text or captions, written with the words."""

    _writer: Writer

    def add_audio(self, captured: Captured) -> None:
        """Keep no audio."""

    def add_event(self, event: Event, outcome: Outcome) -> None:
        """Write what an event brings."""
        del outcome
        self._writer.write(event)

    def finish(self, outcome: Outcome) -> None:
        """Write the caption that is still open."""
        self._writer.finish(outcome)


def _json(outcome: Outcome, tokens: Sequence[ASRToken], silences: Sequence[Silence]) -> str:
    record = serialize.result_record(outcome, tokens, segments_from_tokens(tokens), silences)
    return json_text(record, indent=2) + "\n"


def _text(outcome: Outcome, tokens: Sequence[ASRToken], silences: Sequence[Silence]) -> str:
    """Return a line for each caption, after its speaker."""
    del outcome, silences
    segments = segments_from_tokens(tokens)
    speakers = ["" if each.speaker is None else f"{each.speaker}: " for each in segments]
    pairs = zip(speakers, segments, strict=True)
    return "".join(f"{plain(speaker + segment.text)}\n" for speaker, segment in pairs)


_DOCUMENTS: dict[str, Callable[[Outcome, Sequence[ASRToken], Sequence[Silence]], str]] = {
    "json": _json,
    "text": _text,
    "srt": lambda _outcome, tokens, _silences: srt_text(tokens),
    "vtt": lambda _outcome, tokens, _silences: vtt_text(tokens),
}


@attrs.define
class WholeSave:
    """
    A document that is written anew after each utterance, and within a long one every five seconds.

    Words have the speakers that are known by then.  Until the end a JSON document has the field
    "incomplete".
    """

    _path: Path
    _document: Callable[[Outcome, Sequence[ASRToken], Sequence[Silence]], str]
    _timeline: Timeline = attrs.field(factory=Timeline)
    _silences: list[Silence] = attrs.field(factory=list)
    _written: float = 0.0  # stream time at which the file was written

    def add_audio(self, captured: Captured) -> None:
        """Keep no audio."""

    def add_event(self, event: Event, outcome: Outcome) -> None:
        """Write the document anew where an utterance ended, or goes on for long."""
        self._timeline.add(event)
        if isinstance(event, SilenceSpan):
            self._silences.append(event.silence)
        is_news = isinstance(event, Commit | SpeakerTurn)
        is_due = is_news and event.audio_time - self._written >= _WHOLE_SECONDS
        if is_due or isinstance(event, Endpoint):
            self._written = event.audio_time
            self._write(attrs.evolve(outcome, incomplete="still running"))

    def finish(self, outcome: Outcome) -> None:
        """Write the document."""
        self._write(outcome)

    def _write(self, outcome: Outcome) -> None:
        lines = [line for line in self._timeline.lines if isinstance(line, TextLine)]
        tokens = [token for line in lines for token in line.tokens]
        output = FileOutput(self._path, whole=True, option="--save")
        output.write(self._document(outcome, tokens, self._silences))
        output.close()


class WavSave:
    """
    The audio, 16 bits in one channel; playable at any time, because the header is kept right.

    Audio that was not captured is silence, so that times in the transcript fit the file.
    """

    def __init__(self, path: Path, rate: int) -> None:
        self._path = path
        self._rate = rate
        self._file: BinaryIO | None = None
        self._bytes = 0
        self._since_header = 0

    def add_audio(self, captured: Captured) -> None:
        """Append samples; OSError names the file."""
        data = pcm16(captured.audio)
        self._bytes += 2 * round(captured.lost_seconds * self._rate)
        if self._bytes + len(data) > _MOST_WAV_BYTES:
            self._complete()
            raise OSError(f"{self._path} is full: a wav file holds 4 GB; the transcript goes on")
        try:
            file = self._opened()
            file.seek(_HEADER.size + self._bytes)  # beyond a gap the file has a hole, of zeros
            rest = memoryview(data)
            while rest:
                written = file.write(rest)
                self._bytes += written
                rest = rest[written:]
            self._since_header += len(data)
            if self._since_header >= 2 * self._rate:  # a second
                self._write_header(file)
        except OSError as error:
            with suppress(OSError):
                self._complete()  # what was written so far can be played
            raise OSError(f"cannot write {self._path}: {error.strerror or error}") from error

    def add_event(self, event: Event, outcome: Outcome) -> None:
        """Keep no events."""

    def finish(self, outcome: Outcome) -> None:
        """Complete the header and close."""
        del outcome
        self._complete()

    def _complete(self) -> None:
        file = self._opened()
        try:
            self._write_header(file)
        finally:
            file.close()

    def _opened(self) -> BinaryIO:
        if self._file is None:
            self._file = self._open_file()
            self._write_header(self._file)
        return self._file

    def _open_file(self) -> BinaryIO:
        return self._path.open("wb", buffering=0)

    def _write_header(self, file: BinaryIO) -> None:
        self._since_header = 0
        header = _HEADER.pack(
            b"RIFF", _HEADER.size - 8 + self._bytes, b"WAVE", b"fmt ", 16, 1, 1, self._rate,
            2 * self._rate, 2, 16, b"data", self._bytes,
        )  # fmt: skip
        file.seek(0, os.SEEK_SET)
        file.write(header)
