"""One call of ``listen``: its source, from the first sample to the last word, and its files."""

from __future__ import annotations

from operator import methodcaller
import signal
import time
from typing import TYPE_CHECKING, TypeVar

import attrs
import numpy as np

from wlk_core.audio import decode_file, rechunk
from wlk_core.cli.stops import STOPS, Stopped
from wlk_core.cli.terminal import print_error
from wlk_core.errors import AudioFormatError, WLKError
from wlk_core.microphone import Captured
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session import AudioGap, Failure, Lag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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


@attrs.define(kw_only=True)
class LiveRun:
    """One call of the command, from the first sample to the last word."""

    source: Microphone | FileSource
    processor: OnlineProcessor
    session: Session
    view: LiveView
    writers: list[Writer]  # what cannot be written is dropped, and the others go on
    sounds: list[WavFile]
    outcome: Outcome
    _has_failed: bool = False
    _problem: str | None = None
    _has_lagged: bool = False

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
            self.session.end_audio()
            while self.session.has_work:
                self._show(self.session.step())
        except BrokenPipeError as error:
            self.outcome.incomplete = str(error)
            raise
        except WLKError as error:
            self._fail(error)
        finally:
            STOPS.hold()
            self._save(self.sounds, methodcaller("finish"))
            self._save(self.writers, methodcaller("finish", self.outcome))
        return status or int(self._has_failed)

    def _capture(self) -> None:
        while True:
            STOPS.release()  # a signal ends the wait for audio
            captured = self.source.read(0.0 if self.session.has_work else _WAIT_SECONDS)
            STOPS.hold()
            if captured is None:
                return
            for block in captured:
                audio = block.audio
                pcm = audio if isinstance(audio, bytes) else pcm16(audio)
                self._save(self.sounds, methodcaller("add_audio", pcm, block.lost_seconds))
                if block.lost_seconds:
                    self.session.skip(block.lost_seconds)
                self.session.receive(audio)
            self._show(self.session.step())
            if self.source.problem != self._problem:
                self._problem = self.source.problem
                if self._problem is not None:
                    self._line(self._problem)

    def _show(self, events: list[Event]) -> None:
        for event in events:
            self.outcome.add(event)
            self._save(self.writers, methodcaller("write", event, self.outcome))
            self.view.show(event)
            if isinstance(event, Failure):
                if event.is_final:
                    raise event.error
                self._line(event.error)
            elif isinstance(event, Lag) and not self._has_lagged:
                self._has_lagged = True
                decoded = max(event.audio_time - event.seconds, 0.1)
                factor = self.processor.stats.busy_seconds / decoded
                self._line(
                    f"{self.outcome.model} is too slow for live audio: it takes {factor:.1f} s for "
                    "a second of audio on this machine, and leaves out ticks until it has caught "
                    "up; choose a smaller model, or longer ticks with --option tick_seconds=SECONDS"
                )
            elif isinstance(event, AudioGap):
                seconds = event.end - event.start
                self._line(f"{seconds:.1f} s from {event.start:.1f} s on were not captured")

    def _save(self, files: list[T], call: Callable[[T], None]) -> None:
        for file in list(files):
            try:
                call(file)
            except BrokenPipeError:
                raise
            except OSError as error:
                files.remove(file)
                self._has_failed = True
                self._line(error)

    def _fail(self, error: Exception) -> None:
        self._has_failed = True
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
        self._next = next(self._chunks, None)
        self._due = time.monotonic()  # when the chunk before `_next` has been spoken

    def read(self, timeout: float) -> Iterable[Captured] | None:
        """
        Return the chunks that are due, waiting up to *timeout* seconds for one; None at the end.

        Iterating raises AudioFormatError or OSError where the file cannot be read to its end, after
        the chunks before that.
        """
        return None if self._next is None else self._spoken(timeout)

    def close(self) -> None:
        """Release nothing, because the file is closed at its end."""

    def _spoken(self, timeout: float) -> Iterator[Captured]:
        while self._next is not None:
            due = self._due + len(self._next) / SAMPLE_RATE
            time.sleep(max(0.0, min(timeout, due - time.monotonic())))
            if due > time.monotonic():
                return
            timeout, self._due = 0.0, due
            chunk, self._next = self._next, None  # of a file that cannot be read any further
            yield Captured(chunk)
            self._next = next(self._chunks, None)


def pcm16(audio: NDArray[np.float32]) -> bytes:
    """Return audio as int16 samples, little-endian."""
    scaled = np.clip(np.round(audio * _FULL_SCALE), -_FULL_SCALE, _FULL_SCALE - 1)
    return scaled.astype("<i2").tobytes()
