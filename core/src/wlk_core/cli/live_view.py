"""The live view: position, open caption and hypothesis in one line, on a terminal."""

from __future__ import annotations

from datetime import timedelta
import shutil
import sys
from typing import TYPE_CHECKING

import click

from wlk_core._line_breaks import column_count
from wlk_core.cli.writers import committed
from wlk_core.segments import SegmentBuilder
from wlk_core.session import Endpoint, HypothesisChange, SpeakerTurn
from wlk_core.untrusted import plain, printable

if TYPE_CHECKING:
    from wlk_core.session.events import Event


class LiveView:
    """The last line of a terminal, redrawn in place on standard error; nothing elsewhere."""

    def __init__(self) -> None:
        self.screen = sys.stdout  #: as it is now, before prints of plugins are redirected

    def begin(self, title: str, duration: float | None) -> None:
        """Begin another recording."""
        length = "" if duration is None else f" of {timedelta(seconds=int(duration))}"
        self._title, self._speaker = f"{length}  {title}", ""
        self._captions = SegmentBuilder()
        self._open = self._hypothesis = ""

    def show(self, event: Event) -> None:
        """Draw an event: the position, and as many of the newest words as fit into a line."""
        for token in committed(event):
            ended = self._captions.push(token)
            self._open = token.text if ended else self._open + token.text
            self._hypothesis = ""  # until the event with what is left of it
        if isinstance(event, HypothesisChange):
            self._hypothesis = plain(event.transcript.text)
        elif isinstance(event, Endpoint):
            self._captions, self._open = SegmentBuilder(), ""  # its last line is printed
        elif isinstance(event, SpeakerTurn):
            self._speaker = f"  {event.span.speaker}"
        clock = timedelta(seconds=int(event.audio_time))
        position = printable(f"{clock}{self._title}{self._speaker}")
        room = shutil.get_terminal_size().columns - column_count(position) - 3
        words = f"{plain(self._open)}{self._hypothesis}".lstrip()[-room:]
        while words and column_count(words) > room:  # some characters are wide
            words = words[1:]
        final = max(0, len(words) - len(self._hypothesis))
        self.draw(f"{position}  {words[:final]}{click.style(words[final:], dim=True)}")

    def draw(self, text: str) -> None:
        """Draw a line in place of the last one."""
        if sys.stderr.isatty():  # \r: what others print stands at the beginning of the line
            click.echo(f"\r\x1b[K{text}\r", nl=False, err=True)

    def hide(self) -> None:
        """Clear the line for text on the same terminal; the next event draws again."""
        self.draw("")
