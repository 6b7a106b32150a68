"""Where results go: standard output below a live view, files, and a wav file of the audio."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext, suppress
import shutil
import struct
import sys
import threading
from typing import TYPE_CHECKING, TextIO
import wave

import click

from wlk_core.untrusted import plain, printable
from wlk_live.captions.line_breaks import column_count
from wlk_live.captions.segments import SegmentBuilder
from wlk_live.cli.formats import committed
from wlk_live.cli.progress import clock
from wlk_live.session import Endpoint, HypothesisChange, SpeakerTurn
from wlk_live.speakers import speaker_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wlk_live.cli.channel_format import Channels
    from wlk_live.cli.formats import Format, Outcome
    from wlk_live.cli.late_speakers import LateSpeakers
    from wlk_live.cli.progress import Progress
    from wlk_live.microphone import Captured
    from wlk_live.session.events import Event


_REDRAW_SECONDS = 0.5  # between two positions while the model works


class LiveView:
    """
    The last line of a terminal, redrawn in place on standard error; nothing elsewhere.

    While there is `progress`, a thread redraws it, because the model can work for seconds.
    """

    def __init__(self, speaker_names: Sequence[str] = ()) -> None:
        self._names = speaker_names
        self.screen = sys.stdout  #: taken before what plugins print is redirected
        self.progress: Progress | None = None  #: of recordings that are read as fast as possible
        self.has_late_lines = False  #: whether lines wait for the names of their speakers
        self._is_over = False  # whether the utterance of the newest words has ended
        self._drawing = threading.RLock()  # held to draw, or to write to the same terminal
        self._is_closed = threading.Event()
        self._redrawing: threading.Thread | None = None

    def begin(
        self,
        title: str,
        duration: float | None,
        *,
        progress: Progress | None = None,
        has_words: bool = True,
    ) -> None:
        """Begin another recording, or without words several at the same time."""
        with self._drawing:
            self._position = 0.0
            self._length = "" if duration is None else f" of {clock(duration)}"
            self._title, self._speaker = f"  {title}", ""
            self._captions = SegmentBuilder()
            self._hypothesis = ""
            self._has_words = has_words
            self.progress = progress
        if progress is not None and self._redrawing is None and sys.stderr.isatty():
            self._redrawing = threading.Thread(target=self._redraw, daemon=True)
            self._redrawing.start()

    def end(self) -> None:
        """Clear the line, and draw it no more until another recording begins."""
        with self._drawing:
            self.progress = None
            self.hide()

    def close(self) -> None:
        """End the view."""
        self.end()
        self._is_closed.set()
        if self._redrawing is not None:
            self._redrawing.join()

    def _redraw(self) -> None:
        while not self._is_closed.wait(_REDRAW_SECONDS):
            with self._drawing:
                if self.progress is not None:
                    self._draw_line()

    def show(self, event: Event, file: str) -> None:
        """Draw the position after an event and as many of the newest words as fit into the line."""
        with self._drawing:
            self._position = event.audio_time
            if self.progress is not None:
                self.progress.finish(file, event.audio_time)
            if self._has_words:
                self._add(event)
            self._draw_line()

    def _add(self, event: Event) -> None:
        for token in committed(event):
            self._captions.push(token)
            self._is_over = False
            self._hypothesis = ""  # until the HypothesisChange with what is left of it
        if isinstance(event, HypothesisChange):
            self._hypothesis = plain(event.transcript.text)
        elif isinstance(event, Endpoint):
            self._is_over = True
            if not self.has_late_lines:
                self._end_utterance()  # its last line has been printed
        elif isinstance(event, SpeakerTurn):
            self._speaker = f"  {speaker_name(event.span.speaker, self._names)}"

    def _end_utterance(self) -> None:
        if self._is_over:
            self._captions.flush()

    def _draw_line(self) -> None:
        seconds, pace = self._position, ""
        if self.progress is not None:
            seconds, pace = self.progress.position, self.progress.text()
        room = shutil.get_terminal_size().columns - 3
        text = f"{clock(seconds)}{self._length}{pace}{self._title}{self._speaker}"
        position = _fitting(printable(text), room)
        columns = room - column_count(position)
        newest = f"{plain(self._captions.text)}{self._hypothesis}".lstrip()[::-1]
        words = _fitting(newest, columns)[::-1]
        final = max(0, len(words) - len(self._hypothesis))
        self.draw(f"{position}  {words[:final]}{click.style(words[final:], dim=True)}")

    def draw(self, text: str) -> None:
        """Draw a line in place of the last one."""
        if sys.stderr.isatty():  # the last \r puts what others print at the beginning of the line
            click.echo(f"\r\x1b[K{text}\r", nl=False, err=True)

    def hide(self) -> None:
        """Clear the line; the next event draws it again."""
        self.draw("")

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Clear the line while text is written to the same terminal."""
        with self._drawing:
            self._end_utterance()
            self.hide()
            yield


def _fitting(text: str, columns: int) -> str:
    """Return the beginning of *text* that fits into *columns*."""
    text = text[: max(0, columns)]
    while column_count(text) > columns:  # some characters take two columns
        text = text[:-1]
    return text


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
        # Flushed after each text, so that `tail -f` shows it and a kill does not lose it.  What is
        # not valid Unicode is escaped as in JSON.
        try:
            if self._stream is None:
                self._stream = self._open()
            with self._view.hidden() if self.path is None else nullcontext():
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

    def __init__(self, form: Format | LateSpeakers | Channels, file: TextFile) -> None:
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
