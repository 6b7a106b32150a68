"""One call of ``listen``: its source, from the first sample to the last word, and its files."""

from __future__ import annotations

from collections import deque
from operator import methodcaller
import signal
import time
from typing import TYPE_CHECKING, TypeVar

import attrs
import numpy as np

from wlk_core.audio import decode_file, rechunk
from wlk_core.cli.stops import STOPS, Stopped
from wlk_core.cli.terminal import echo, print_error
from wlk_core.errors import AudioFormatError, WLKError
from wlk_core.microphone import Captured
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session import AudioGap, End, Failure, Lag, SpeakerTurn
from wlk_core.untrusted import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from wlk_core.cli.live_view import LiveView
    from wlk_core.cli.writers import Outcome, WavFile, Writer
    from wlk_core.microphone import Microphone
    from wlk_core.processor import OnlineProcessor
    from wlk_core.session import Session
    from wlk_core.session.events import Event

__all__ = ["FileSource", "LiveRun"]

T = TypeVar("T")

_WAIT_SECONDS = 0.1
_CHUNK_SECONDS = 0.1
_FULL_SCALE = 32_768.0
_MAX_BACKLOG_SECONDS = 30.0  # in the session, which reports them as lag


@attrs.define(kw_only=True)
class LiveRun:
    """One call of the command, from the first sample to the last word."""

    source: Microphone | FileSource
    session: Session
    processor: OnlineProcessor
    view: LiveView
    writer: Writer
    saves: list[Writer]  # a file that cannot be written is dropped, and the others go on
    sounds: list[WavFile]
    outcome: Outcome
    has_failed: bool = False
    _waiting: deque[Captured] = attrs.field(factory=deque)  # what the session does not take yet
    _problem: str | None = None
    _has_lagged: bool = False
    _speaker: str = ""  # who spoke last, for the live view
    _began: float = attrs.field(factory=time.perf_counter)

    def execute(self) -> int:
        """Transcribe until the source ends or a signal comes; return the exit status."""
        status = 0
        try:
            try:
                self._capture()
            except Stopped as stop:
                STOPS.reset()  # a second one ends the run within five seconds
                if stop.number != signal.SIGINT:  # Ctrl-C is how a run usually ends
                    status = stop.status
                    self.outcome.incomplete = str(stop)
            except BrokenPipeError:
                raise  # the reader of standard output has left, and needs no line
            except (AudioFormatError, OSError) as error:
                self._fail(error)
            STOPS.hold()
            while self._waiting:
                self._receive(self._waiting.popleft())
                self._work_off()
            self.session.end_audio()
            self._work_off()
        except BrokenPipeError as error:
            self.outcome.incomplete = str(error)
            raise
        except WLKError as error:
            self._fail(error)
        finally:
            STOPS.hold()
            self._save(self.saves, lambda save: save.finish(self.outcome))
            self._save(self.sounds, lambda sound: sound.finish())
            self.writer.finish(self.outcome)
        self._summarise()
        return status or int(self.has_failed)

    def _capture(self) -> None:
        while True:
            STOPS.release()  # a signal ends the wait for audio
            captured = self.source.read(0.0 if self.session.has_work else _WAIT_SECONDS)
            STOPS.hold()
            if captured is None:
                return
            self._waiting.extend(captured)
            while self._waiting and self.session.backlog_seconds < _MAX_BACKLOG_SECONDS:
                self._receive(self._waiting.popleft())
            if self.session.has_work:
                self._show(self.session.step())
            self._note()

    def _receive(self, block: Captured) -> None:
        pcm = pcm16(block.audio)
        self._save(self.sounds, lambda sound: sound.add_audio(pcm, block.lost_seconds))
        if block.lost_seconds:
            self.session.skip(block.lost_seconds)
        self.session.receive(block.audio)

    def _work_off(self) -> None:
        while self.session.has_work:
            self._show(self.session.step())

    def _show(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, End):
                self.outcome.end(event, time.perf_counter() - self._began)
            else:
                self.outcome.add(event)
            self._save(self.saves, methodcaller("write", event, self.outcome))
            self.writer.write(event, self.outcome)
            self.view.show(event)
            if isinstance(event, Failure):
                if event.is_final:
                    raise event.error
                self._line(event.error)
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
        factor = stats.busy_seconds / max(stats.audio_seconds - lag.seconds, 0.1)
        return (
            f"{self.outcome.model} is too slow for live audio: it takes {factor:.1f} s for a "
            "second of audio on this machine, and leaves out ticks until it has caught up; choose "
            "a smaller model, or longer ticks with --option tick_seconds=SECONDS"
        )

    def _note(self) -> None:
        """Show lag and speaker; print what is wrong with the device once."""
        if self.source.problem != self._problem:
            self._problem = self.source.problem
            if self._problem is not None:
                self._line(self._problem)
        lag = self.session.backlog_seconds
        late = f"{lag:.1f} s late" if lag >= 1 else ""
        self.view.note(f"{late}{printable(self._speaker)}")

    def _summarise(self) -> None:
        """Print length and latency, on a terminal."""
        latency = self.outcome.latency
        if self.view.is_live and latency is not None:
            self.view.hide()
            echo(
                f"{self.outcome.audio_time:.1f} s of audio, {latency.words} words, final "
                f"{latency.median:.2f} s after their end (median; 90 % within {latency.p90:.2f} s)",
                err=True,
            )

    def _save(self, saves: list[T], call: Callable[[T], None]) -> None:
        for save in list(saves):
            try:
                call(save)
            except OSError as error:
                saves.remove(save)
                self.has_failed = True
                self._line(error)

    def _fail(self, error: Exception) -> None:
        self.has_failed = True
        self.outcome.incomplete = str(error)
        self._line(error)

    def _line(self, text: object) -> None:
        self.view.hide()
        print_error(text)


class FileSource:
    """A recording with the calls of `Microphone`, in chunks of 0.1 s that come when spoken."""

    rate = SAMPLE_RATE
    problem: str | None = None

    def __init__(self, file: str) -> None:
        self._chunks = rechunk(decode_file(file), round(_CHUNK_SECONDS * SAMPLE_RATE))
        self._timed = self._with_times()
        self._next: tuple[float, NDArray[np.float32]] | None = None
        self._error: AudioFormatError | OSError | None = None

    def read(self, timeout: float) -> list[Captured] | None:
        """
        Return the chunks that are due, waiting up to *timeout* seconds for one; None at the end.

        Raises:
            AudioFormatError, OSError: the file cannot be read, or not to its end.

        """
        if self._next is None:
            self._next = next(self._timed, None)
            if self._error is not None:
                raise self._error
            if self._next is None:
                return None
        time.sleep(max(0.0, min(timeout, self._next[0] - time.monotonic())))
        captured = []
        while self._next is not None and self._next[0] <= time.monotonic():
            captured.append(Captured(self._next[1]))
            self._next = next(self._timed, None)
        return captured

    def close(self) -> None:
        """Release nothing, because the file is closed at its end."""

    def _with_times(self) -> Iterator[tuple[float, NDArray[np.float32]]]:
        """Yield each chunk and when it has been spoken; keep an error for later."""
        due: float | None = None
        try:
            for chunk in self._chunks:
                due = (time.monotonic() if due is None else due) + len(chunk) / SAMPLE_RATE
                yield due, chunk
        except (AudioFormatError, OSError) as error:
            self._error = error  # raised after the chunks before it were returned


def pcm16(audio: bytes | NDArray[np.float32]) -> bytes:
    """Return captured audio as int16 samples, little-endian."""
    if isinstance(audio, bytes):
        return audio
    scaled = np.clip(np.round(audio * _FULL_SCALE), -_FULL_SCALE, _FULL_SCALE - 1)
    return scaled.astype("<i2").tobytes()
