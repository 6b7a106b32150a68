"""The live view: position, open caption and hypothesis in one line, on a terminal."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import click

from wlk_core._line_breaks import column_count
from wlk_core.cli.writers import committed
from wlk_core.segments import SegmentBuilder
from wlk_core.session import HypothesisChange, SpeakerTurn
from wlk_core.untrusted import plain, printable

if TYPE_CHECKING:
    from wlk_core.session.events import Event


class LiveView:
    """The last line of a terminal, redrawn in place on standard error; nothing elsewhere."""

    def __init__(self) -> None:
        self.is_live = _is_terminal()
        self.begin("", None)

    def begin(self, title: str, duration: float | None) -> None:
        """Begin another recording."""
        length = "" if duration is None else f" of {_clock(duration)}"
        self._title, self._speaker = f"{length}  {title}", ""
        self._captions = SegmentBuilder()
        self._open = self._hypothesis = ""
        self._audio_time = 0.0

    def show(self, event: Event) -> None:
        """Draw an event."""
        if not self.is_live:
            return
        self._audio_time = event.audio_time
        for token in committed(event):
            ended = self._captions.push(token)
            self._open = token.text if ended else self._open + token.text
            self._hypothesis = ""  # until the event with what is left of it
        if isinstance(event, HypothesisChange):
            self._hypothesis = event.transcript.text
        elif isinstance(event, SpeakerTurn):
            self._speaker = f"  {event.span.speaker}"
        self.draw(self.line())

    def draw(self, text: str) -> None:
        """Draw a line in place of the last one."""
        if self.is_live:  # \r: what is printed without clearing the line stands at its beginning
            click.echo(f"\r\x1b[K{text}\r", nl=False, err=True)

    def hide(self) -> None:
        """Clear the line for text on the same terminal; the next event draws again."""
        self.draw("")

    def line(self) -> str:
        """Return what fits into a line: the position, and the newest words."""
        position = printable(f"{_clock(self._audio_time)}{self._title}{self._speaker}")
        words = plain(self._open).lstrip()
        hypothesis = plain(self._hypothesis)
        hypothesis = hypothesis if words else hypothesis.lstrip()
        room = shutil.get_terminal_size().columns - column_count(position) - 3
        while words + hypothesis and column_count(words + hypothesis) > room:
            words, hypothesis = (words[1:], hypothesis) if words else ("", hypothesis[1:])
        return f"{click.style(position, fg='cyan')}  {words}{click.style(hypothesis, dim=True)}"


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
