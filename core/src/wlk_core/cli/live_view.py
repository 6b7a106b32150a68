"""The live view: open caption, hypothesis and position, on standard error if it is a terminal."""

from __future__ import annotations

from contextlib import contextmanager
import sys
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

import attrs
import click

from wlk_core.cli.foreign import quiet
from wlk_core.segments import SegmentBuilder
from wlk_core.session import Commit, HypothesisChange
from wlk_core.untrusted import plain, printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from rich.live import Live
    from rich.text import Text

    from wlk_core.session.events import Event

__all__ = ["LiveView", "NoView", "View", "loading", "open_live_view"]

_REDRAWS = 12  # a second; a file is transcribed faster than text can be read


class View(Protocol):
    """Progress on a terminal while results are on their way."""

    @property
    def is_live(self) -> bool:
        """Whether anything is drawn."""
        ...

    def begin(self, title: str, duration: float | None) -> None:
        """Begin another recording."""
        ...

    def show(self, event: Event) -> None:
        """Draw an event."""
        ...

    def note(self, text: str) -> None:
        """Draw a short text beside the position, such as a level."""
        ...

    def hide(self) -> None:
        """Leave an empty line for text on the same terminal; the next event draws again."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class NoView:
    """The view where standard error is no terminal: nothing is drawn."""

    is_live = False

    def begin(self, title: str, duration: float | None) -> None:
        """Do nothing."""

    def show(self, event: Event) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def hide(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


@attrs.define
class LiveView:
    """A few lines at the bottom of a terminal, redrawn in place."""

    is_live: ClassVar[bool] = True
    _live: Live
    _shows_committed: bool = True
    _title: str = ""
    _duration: float | None = None
    _captions: SegmentBuilder = attrs.field(factory=SegmentBuilder)
    _open: str = ""
    _hypothesis: str = ""
    _audio_time: float = 0.0
    _note: str = ""

    def begin(self, title: str, duration: float | None) -> None:
        """Begin another recording."""
        self._title, self._duration = printable(title), duration
        self._captions = SegmentBuilder()
        self._open = self._hypothesis = ""
        self._audio_time = 0.0
        self._live.update(self._view(), refresh=True)

    def show(self, event: Event) -> None:
        """Update the view from an event; the next redraw shows it."""
        self._audio_time = event.audio_time
        if isinstance(event, Commit):
            for token in event.tokens:
                ended = self._captions.push(token)
                self._open = token.text if ended else self._open + token.text
        elif isinstance(event, HypothesisChange):
            self._hypothesis = event.transcript.text
        self._live.update(self._view())

    def note(self, text: str) -> None:
        """Draw a short text beside the position with the next redraw."""
        self._note = text
        self._live.update(self._view())

    def hide(self) -> None:
        """Leave an empty line and the cursor at its beginning."""
        self._live.update("", refresh=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()
        self._live.stop()

    def _view(self) -> Text:
        from rich.text import Text  # noqa: PLC0415 -- only where there is a terminal

        view = Text(plain(self._open).lstrip() if self._shows_committed else "")
        hypothesis = plain(self._hypothesis)
        view.append(hypothesis if view else hypothesis.lstrip(), style="dim")
        view.append("\n" if view else "")
        of = "" if self._duration is None else f" of {_clock(self._duration)}"
        note = f"  {self._note}" if self._note else ""
        position = f"{_clock(self._audio_time)}{of}"
        view.append(f"{position}  {self._title}{note}", style="dim cyan")
        return view


def open_live_view(*, shows_committed: bool = True) -> View:
    """Return a live view if standard error is a terminal that can draw, else a blank one."""
    if not sys.stderr.isatty():
        return NoView()
    from rich.console import Console  # noqa: PLC0415 -- only where there is a terminal
    from rich.live import Live  # noqa: PLC0415 -- only where there is a terminal

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal or console.is_dumb_terminal:
        return NoView()
    live = Live(
        console=console,
        refresh_per_second=_REDRAWS,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="crop",
    )
    return LiveView(live, shows_committed)


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Print on a terminal what is being loaded, and erase it afterwards; hide other prints."""
    if not sys.stderr.isatty():
        with quiet():
            yield
        return
    click.echo(
        f"loading {printable(what)} ...\r", err=True, nl=False
    )  # a progress bar may overwrite it
    try:
        with quiet():
            yield
    finally:
        click.echo("\r\x1b[K", err=True, nl=False)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
