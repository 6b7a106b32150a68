"""One call of ``listen``: from the first sample to the last word, and the files it keeps."""

from __future__ import annotations

from collections import deque
import signal
from time import perf_counter
from typing import TYPE_CHECKING

import attrs
import click

from wlk_core.cli.main import print_error
from wlk_core.cli.stops import STOPS, Stopped
from wlk_core.errors import AudioFormatError, WLKError
from wlk_core.untrusted import printable

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_core.cli.live_source import LiveSource
    from wlk_core.cli.live_view import View
    from wlk_core.cli.saves import Save
    from wlk_core.cli.serialize import Outcome
    from wlk_core.cli.writers import Writer
    from wlk_core.microphone import Captured
    from wlk_core.processor import OnlineProcessor
    from wlk_core.session import Lag, Session
    from wlk_core.session.events import Event

__all__ = ["LiveRun"]

_WAIT_SECONDS = 0.1
_MOST_WAITING_SECONDS = 30.0  # in the session, which reports them as lag
_BAR = 10  # characters of the level meter
_BAR_FLOOR = -60.0  # decibels


@attrs.define(kw_only=True)
class LiveRun:
    """One call of the command, from the first sample to the last word."""

    source: LiveSource
    session: Session
    processor: OnlineProcessor
    view: View
    writer: Writer
    saves: dict[Path, Save]
    outcome: Outcome
    has_failed: bool = False
    _waiting: deque[Captured] = attrs.field(factory=deque)
    _problem: str | None = None
    _level: float = -96.0
    _has_lagged: bool = False
    _speaker: str = ""  # who spoke last, for the live view
    _began: float = attrs.field(factory=perf_counter)

    def execute(self) -> int:
        """Transcribe until the source ends or a signal comes; return the exit status."""
        stopped: Stopped | None = None
        try:
            try:
                self._capture()
            except Stopped as stop:
                stopped = stop
                STOPS.reset()  # a second signal ends the run at once
                if stop.number != signal.SIGINT:
                    self.outcome.incomplete = f"stopped by {stop.name}"
            except (AudioFormatError, OSError) as error:
                self.outcome.incomplete = str(error)
                self._fail(error)
            STOPS.hold()
            self._receive_waiting()
            self.session.end_audio()
            self._work_off()
        except WLKError as error:
            self.outcome.incomplete = str(error)
            self._fail(error)
        finally:
            STOPS.hold()
            self._finish()
        self._summarise()
        if stopped is not None and stopped.number != signal.SIGINT:
            return stopped.status
        return 1 if self.has_failed else 0

    def _capture(self) -> None:
        while True:
            STOPS.release()  # a signal ends the wait for audio
            captured = self._read()
            STOPS.hold()
            if captured is None:
                return
            self._waiting.extend(captured)
            while self._waiting and self.session.backlog_seconds < _MOST_WAITING_SECONDS:
                self._receive(self._waiting.popleft())
            if self.session.has_work:
                self._show(self.session.step())
            self._note()

    def _receive_waiting(self) -> None:
        """Decode what was captured and did not fit into the session."""
        while self._waiting:
            self._receive(self._waiting.popleft())
            self._work_off()

    def _read(self) -> list[Captured] | None:
        return self.source.read(0.0 if self.session.has_work else _WAIT_SECONDS)

    def _receive(self, block: Captured) -> None:
        from wlk_core.cli.live_source import level_decibels  # noqa: PLC0415 -- brings numpy

        self._level = level_decibels(block.audio)
        for path, save in list(self.saves.items()):
            with self._guard(path):
                save.add_audio(block)
        if block.lost_seconds:
            self.session.skip(block.lost_seconds)
        self.session.receive(block.audio)

    def _work_off(self) -> None:
        while self.session.has_work:
            self._show(self.session.step())

    def _show(self, events: list[Event]) -> None:
        from wlk_core.session import (  # noqa: PLC0415 -- brings numpy
            AudioGap,
            End,
            Failure,
            Lag,
            SpeakerTurn,
        )

        for event in events:
            if isinstance(event, End):
                self.outcome.end(event, perf_counter() - self._began)
            else:
                self.outcome.add(event)
            self.writer.write(event)
            for path, save in list(self.saves.items()):
                with self._guard(path):
                    save.add_event(event, self.outcome)
            self.view.show(event)
            if isinstance(event, Failure):
                if event.is_final:
                    raise event.error
                self._line(str(event.error))
            elif isinstance(event, SpeakerTurn):
                self._speaker = f"  {event.span.speaker}"
            elif isinstance(event, Lag) and not self._has_lagged:
                self._has_lagged = True
                self._line(self._too_slow(event))
            elif isinstance(event, AudioGap):
                seconds = event.end - event.start
                self._line(f"{seconds:.1f} s from {event.start:.1f} s on were not captured")

    def _too_slow(self, lag: Lag) -> str:
        stats = self.processor.stats
        decoded = max(stats.audio_seconds - lag.seconds, 0.1)
        factor = stats.busy_seconds / decoded
        return (
            f"{self.outcome.model} is too slow for live audio: it takes {factor:.1f} s for a "
            "second of audio on this machine, and leaves out ticks until it has caught up; choose "
            "a smaller model, or longer ticks with --option tick_seconds=SECONDS"
        )

    def _note(self) -> None:
        """Show level and lag; print what is wrong with the device once."""
        if self.source.problem != self._problem:
            self._problem = self.source.problem
            if self._problem is not None:
                self._line(self._problem)
        filled = round(_BAR * max(0.0, 1 - self._level / _BAR_FLOOR))
        lag = self.session.backlog_seconds
        late = f"  {lag:.1f} s late" if lag >= 1 else ""
        self.view.note(f"{'▮' * filled}{'▯' * (_BAR - filled)}{late}{printable(self._speaker)}")

    def _finish(self) -> None:
        for path, save in list(self.saves.items()):
            with self._guard(path):
                save.finish(self.outcome)
        self.writer.finish(self.outcome)

    def _summarise(self) -> None:
        """Print length and latency, on a terminal."""
        latency = self.outcome.latency
        if self.view.is_live and latency is not None:
            self.view.hide()
            click.echo(
                f"{self.outcome.audio_time:.1f} s of audio, {latency.words} words, final "
                f"{latency.median:.2f} s after their end (median; 90 % within {latency.p90:.2f} s)",
                err=True,
            )

    def _guard(self, path: Path) -> _Guard:
        return _Guard(self, path)

    def _fail(self, error: Exception) -> None:
        self.has_failed = True
        self._line(str(error))

    def _line(self, text: str) -> None:
        self.view.hide()
        print_error(text)


@attrs.frozen
class _Guard:
    """A file that cannot be written is one line; the other files and the text go on."""

    _run: LiveRun
    _path: Path

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, _traceback: object) -> bool:
        if not isinstance(error, OSError):
            return False
        del self._run.saves[self._path]
        self._run._fail(error)  # noqa: SLF001 -- a part of the run
        return True
