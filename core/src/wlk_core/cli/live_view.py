"""The live view: open caption, hypothesis and position, on standard error if it is a terminal."""

from __future__ import annotations

from contextlib import contextmanager
import sys
from typing import TYPE_CHECKING, Self

import click

from wlk_core.segments import SegmentBuilder
from wlk_core.session import Commit, HypothesisChange
from wlk_core.untrusted import plain, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.live import Live
    from rich.text import Text

    from wlk_core.session.events import Event

__all__ = ["LiveView", "loading"]

_REDRAWS = 12  # a second; a file is transcribed faster than text can be read


class LiveView:
    """A few lines at the bottom of a terminal, redrawn in place; nothing without a terminal."""

    def __init__(self, live: Live | None = None, *, shows_committed: bool = True) -> None:
        self._live = live or _new_live()
        self._shows_committed = shows_committed
        self._title = self._length = self._note = ""
        self._captions = SegmentBuilder()
        self._open = self._hypothesis = ""
        self._audio_time = 0.0

    @property
    def is_live(self) -> bool:
        """Whether anything is drawn."""
        return self._live is not None

    def begin(self, title: str, duration: float | None) -> None:
        """Begin another recording."""
        self._title = printable(title)
        self._length = "" if duration is None else f" of {_clock(duration)}"
        self._captions = SegmentBuilder()
        self._open = self._hypothesis = ""
        self._audio_time = 0.0
        self._draw()

    def show(self, event: Event) -> None:
        """Update the view from an event; the next redraw shows it."""
        if self._live is None:
            return
        self._audio_time = event.audio_time
        if isinstance(event, Commit):
            for token in event.tokens:
                ended = self._captions.push(token)
                self._open = token.text if ended else self._open + token.text
        elif isinstance(event, HypothesisChange):
            self._hypothesis = event.transcript.text
        self._draw()

    def note(self, text: str) -> None:
        """Draw a short text beside the position with the next redraw."""
        self._note = f"  {text}"
        self._draw()

    def hide(self) -> None:
        """Leave an empty line for text on the same terminal; the next event draws again."""
        if self._live is not None:
            self._live.update("", refresh=True)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self.hide()
            self._live.stop()

    def _draw(self) -> None:
        if self._live is not None:
            self._live.update(self._view())

    def _view(self) -> Text:
        from rich.text import Text  # noqa: PLC0415 -- only where there is a terminal

        view = Text(plain(self._open).lstrip() if self._shows_committed else "")
        hypothesis = plain(self._hypothesis)
        view.append(hypothesis if view else hypothesis.lstrip(), style="dim")
        position = f"{_clock(self._audio_time)}{self._length}  {self._title}{self._note}"
        return view.append("\n" if view else "").append(position, style="dim cyan")


def _new_live() -> Live | None:
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    from rich.console import Console  # noqa: PLC0415 -- only where there is a terminal
    from rich.live import Live  # noqa: PLC0415 -- only where there is a terminal

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    return Live(
        console=console,
        refresh_per_second=_REDRAWS,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="crop",
    )


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Print on a terminal what is being loaded, and erase it afterwards."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    click.echo(f"loading {printable(what)} ...\r", err=True, nl=False)  # \r: a bar may follow
    try:
        yield
    finally:
        click.echo("\r\x1b[K", err=True, nl=False)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
