"""Where results go: standard output below a live view, files, and a wav file of the audio."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
import shutil
import struct
import sys
from typing import TYPE_CHECKING, TextIO
import wave

import click

from wlk_core.untrusted import plain, printable
from wlk_live.captions.line_breaks import column_count
from wlk_live.captions.segments import SegmentBuilder
from wlk_live.cli.formats import committed
from wlk_live.records import speaker_name
from wlk_live.session import Endpoint, HypothesisChange, SpeakerTurn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wlk_live.cli.formats import Format, Outcome
    from wlk_live.microphone import Captured
    from wlk_live.session.events import Event


class LiveView:
    """The last line of a terminal, redrawn in place on standard error; nothing elsewhere."""

    def __init__(self, speaker_names: Sequence[str] = ()) -> None:
        self._names = speaker_names
        self.screen = sys.stdout  #: taken before what plugins print is redirected

    def begin(self, title: str, duration: float | None) -> None:
        """Begin another recording."""
        length = "" if duration is None else f" of {timedelta(seconds=int(duration))}"
        self._title, self._speaker = f"{length}  {title}", ""
        self._captions = SegmentBuilder()
        self._hypothesis = ""

    def show(self, event: Event) -> None:
        """Draw the position after an event and as many of the newest words as fit into the line."""
        for token in committed(event):
            self._captions.push(token)
            self._hypothesis = ""  # until the HypothesisChange with what is left of it
        if isinstance(event, HypothesisChange):
            self._hypothesis = plain(event.transcript.text)
        elif isinstance(event, Endpoint):
            self._captions.flush()  # the last line of the utterance has been printed
        elif isinstance(event, SpeakerTurn):
            self._speaker = f"  {speaker_name(event.span.speaker, self._names)}"
        clock = timedelta(seconds=int(event.audio_time))
        position = printable(f"{clock}{self._title}{self._speaker}")
        columns = shutil.get_terminal_size().columns - column_count(position) - 3
        words = f"{plain(self._captions.text)}{self._hypothesis}".lstrip()[-columns:]
        while words and column_count(words) > columns:  # some characters take two columns
            words = words[1:]
        final = max(0, len(words) - len(self._hypothesis))
        self.draw(f"{position}  {words[:final]}{click.style(words[final:], dim=True)}")

    def draw(self, text: str) -> None:
        """Draw a line in place of the last one."""
        if sys.stderr.isatty():  # the last \r puts what others print at the beginning of the line
            click.echo(f"\r\x1b[K{text}\r", nl=False, err=True)

    def hide(self) -> None:
        """Clear the line for text on the same terminal; the next event draws it again."""
        self.draw("")


class TextFile:
    """A file, device or pipe that is opened for its first text; without a path, standard output."""

    def __init__(self, view: LiveView, path: Path | None = None) -> None:
        self.path = path
        self._view = view  # cleared before text on the same terminal
        self._stream: TextIO | None = None

    @property
    def is_open(self) -> bool:
        """Whether it was opened, as standard output always is."""
        return self.path is None or self._stream is not None

    def write(self, text: str) -> None:
        """Write and flush; OSError names the file."""
        if self.path is None:
            self._view.hide()
        # Flushed after each text, so that `tail -f` shows it and a kill does not lose it.  What is
        # not valid Unicode is escaped as in JSON.
        try:
            if self._stream is None:
                self._stream = self._open()
            self._stream.write(text)
            self._stream.flush()
        except OSError as error:
            if self.path is None and isinstance(error, BrokenPipeError):
                raise
            self.close()
            name = self.path or "standard output"
            raise OSError(f"cannot write {name}: {error.strerror or error}") from error

    def _open(self) -> TextIO:
        if self.path is None:
            return self._view.screen
        return self.path.open("w", encoding="utf-8", errors="backslashreplace")

    def close(self) -> None:
        """Close a file; standard output stays open."""
        if self.path is not None and self._stream is not None:
            with suppress(OSError):  # such as a full disk, which was reported
                self._stream.close()


class Output:
    """A result in one format, written while the session goes on."""

    def __init__(self, form: Format, file: TextFile) -> None:
        self._form = form
        self._file = file

    def add_audio(self, block: Captured) -> None:
        """Ignore audio."""

    def add_event(self, event: Event) -> None:
        """Write what an event adds."""
        if text := self._form.push(event):  # an existing file is kept until there are words
            self._file.write(text)

    def finish(self, outcome: Outcome) -> None:
        """Write the rest and close the file; called once, also after a failure."""
        if text := self._form.flush(outcome):
            self._file.write(text)
        if not self._file.is_open and outcome.incomplete is None:
            self._file.write("")  # only a complete result without text empties an existing file
        self._file.close()


class WavFile:
    """A wav file of the captured audio, mono at 16 bits; what was not captured is silence."""

    def __init__(self, path: Path, rate: int) -> None:
        self._path, self._rate = path, rate
        self._file = path.open("wb")
        self._wave = wave.open(self._file)  # noqa: SIM115 -- closed by `finish`
        self._wave.setparams((1, 2, rate, 0, "NONE", ""))

    def add_audio(self, block: Captured) -> None:
        """Append audio; the file is valid after each call.  OSError names the file."""
        try:
            for piece in block.pcm(self._rate):
                self._wave.writeframes(piece)
            self._file.flush()
        except (OSError, struct.error) as error:  # the header stores the length in 32 bits
            with suppress(OSError, struct.error):
                self.finish()  # what was written so far can still be played
            reason = getattr(error, "strerror", None) or "a wav file holds 4 GB"
            raise OSError(f"cannot write {self._path}: {reason}") from error

    def add_event(self, event: Event) -> None:
        """Ignore events."""

    def finish(self, _outcome: Outcome | None = None) -> None:
        """Close the file."""
        with self._file:
            self._wave.close()
