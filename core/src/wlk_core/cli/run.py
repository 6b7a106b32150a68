"""One recording or microphone, from its first sample to the last word that is written of it."""

from __future__ import annotations

from operator import methodcaller
import signal
import time
from typing import TYPE_CHECKING, Any

from wlk_core.audio import decode_file, rechunk
from wlk_core.cli.stops import STOPS, Stopped
from wlk_core.cli.terminal import print_error, report
from wlk_core.errors import AudioFormatError, WLKError
from wlk_core.microphone import Captured
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session import AudioGap, Failure, Lag, Session
from wlk_core.vad import silence_gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from wlk_core.annotators import Diarizer
    from wlk_core.backend import Backend
    from wlk_core.cli.live_view import LiveView
    from wlk_core.cli.writers import Outcome, Target
    from wlk_core.microphone import Microphone
    from wlk_core.vad import GateParameters

_WAIT_SECONDS = 0.1
_SKIP_TICKS_AFTER = 4.0  # seconds of audio that wait for the model
_DAY_SECONDS = 86_400.0  # of audio may wait for it, because a microphone cannot


class Run:
    """
    One source through a stream of its own.

    A live run is what `listen` does: a signal ends the audio and the last words are decoded, and a
    model that is too slow leaves out ticks.
    """

    def __init__(
        self,
        backend: Backend,
        source: Microphone | FileSource,
        outcome: Outcome,
        targets: Sequence[Target],
        view: LiveView,
        *,
        task: str = "transcribe",
        options: Mapping[str, Any] | None = None,
        vad: bool | GateParameters = True,
        diarizer: Diarizer | None = None,
        is_live: bool = False,
    ) -> None:
        self._source = source
        self._outcome = outcome
        self._targets = list(targets)
        self._view = view
        self._is_live = is_live
        self._processor = backend.create_processor(
            language=outcome.language, task=task, **(options or {})
        )
        self._session = Session(
            self._processor,
            gate=silence_gate(vad),
            diarizer=diarizer,
            rate=source.rate,
            max_backlog_seconds=_DAY_SECONDS,
            skip_ticks_after=_SKIP_TICKS_AFTER if is_live else None,
        )
        self._status = 0
        self._problem: str | None = None
        self._has_lagged = False

    def execute(self) -> int:
        """
        Transcribe until the source ends or a signal comes; return the exit status.

        A failure of the source or of the engine is one line; everything committed is written before
        anything is raised.
        """
        try:
            self._capture()
            self._session.end_audio()
            while self._targets and self._session.has_work:
                self._step()
        except BaseException as error:
            # The reader of standard output has left with a broken pipe, and needs no line.
            if isinstance(error, BrokenPipeError) or not isinstance(error, (WLKError, OSError)):
                self._outcome.incomplete = " ".join(str(error).split()) or "interrupted"
                raise
            self._fail(error)
        finally:
            # However it ended, what was committed is written before a signal counts.
            STOPS.hold()
            # A source that failed has no End with figures, but the work so far.
            self._outcome.stats = self._outcome.stats or self._processor.stats
            self._each(methodcaller("finish", self._outcome))
            self._view.hide()
            self._processor.close()
        STOPS.release()
        return self._status

    def _capture(self) -> None:
        try:
            for block in STOPS.between(self._blocks()):
                if block is None:
                    self._step()
                    continue
                self._each(methodcaller("hear", block))
                if block.lost_seconds:
                    self._session.skip(block.lost_seconds)
                self._session.receive(block.audio)
        except Stopped as stop:
            if not self._is_live:
                raise
            STOPS.reset()  # a second one ends the run within five seconds
            STOPS.hold()
            if stop.number != signal.SIGINT:  # Ctrl-C is how a live run usually ends
                self._status = stop.status
                self._outcome.incomplete = str(stop)
        except BrokenPipeError:
            raise
        except (AudioFormatError, OSError) as error:
            self._fail(error)  # and the audio before it is decoded to its end

    def _blocks(self) -> Iterator[Captured | None]:
        """Yield audio as it comes, None where there is time for a step."""
        while self._targets and not self._session.is_over:
            captured = self._source.read(0.0 if self._session.has_work else _WAIT_SECONDS)
            if captured is None:
                return
            yield from captured
            yield None
            if self._source.problem != self._problem:
                self._problem = self._source.problem
                if self._problem is not None:
                    self._line(self._problem)

    def _step(self) -> None:
        for event in self._session.step():
            self._outcome.add(event)
            self._each(methodcaller("write", event))
            self._view.show(event)
            if isinstance(event, Failure) and event.is_final:
                self._fail(event.error)
            elif isinstance(event, Failure) and self._is_live:
                self._line(event.error)
            elif isinstance(event, Lag) and self._is_live and not self._has_lagged:
                self._has_lagged = True
                decoded = max(event.audio_time - event.seconds, 0.1)
                factor = self._processor.stats.busy_seconds / decoded
                self._line(
                    f"{self._outcome.settings.model} is too slow for live audio: it takes "
                    f"{factor:.1f} s for a second of audio on this machine, and leaves out ticks "
                    "until it has caught up; choose a smaller model, or longer ticks with --option "
                    "tick_seconds=SECONDS"
                )
            elif isinstance(event, AudioGap):
                seconds = event.end - event.start
                self._line(f"{seconds:.1f} s from {event.start:.1f} s on were not captured")

    def _each(self, call: Callable[[Target], None]) -> None:
        for target in list(self._targets):
            try:
                call(target)
            except BrokenPipeError:
                raise
            except OSError as error:  # the others go on; without any the run ends
                self._targets.remove(target)
                self._status = 1
                self._line(error)

    def _fail(self, error: Exception) -> None:
        self._status = 1
        self._outcome.incomplete = str(error)
        self._view.hide()
        report(self._outcome.file, error)

    def _line(self, text: object) -> None:
        self._view.hide()
        print_error(text)


class FileSource:
    """
    A recording with the calls of `Microphone`, in chunks of `chunk_seconds`.

    A chunk comes when the model has no more work, or, with `is_spoken`, when its end would have
    been spoken.
    """

    rate = SAMPLE_RATE
    problem: str | None = None

    def __init__(self, file: str, chunk_seconds: float = 0.1, *, is_spoken: bool = True) -> None:
        self._chunks = rechunk(decode_file(file), max(1, round(chunk_seconds * SAMPLE_RATE)))
        self._is_spoken = is_spoken
        self._is_over = False
        self._next: Captured | None = None
        self._due = time.monotonic()  # when the end of `_next` has been spoken

    def read(self, timeout: float) -> Iterable[Captured] | None:
        """
        Return the chunks that are due, waiting up to *timeout* seconds for one; None at the end.

        Iterating raises AudioFormatError or OSError where the file cannot be read to its end, after
        the chunks before that.
        """
        return None if self._is_over else self._chunks_due(timeout)

    def _chunks_due(self, timeout: float) -> Iterator[Captured]:
        while timeout or self._is_spoken:
            if self._next is None:
                chunk = next(self._chunks, None)
                if chunk is None:
                    self._is_over = True
                    return
                self._next = Captured(chunk)
                self._due += len(chunk) / SAMPLE_RATE
            if self._is_spoken:
                time.sleep(max(0.0, min(timeout, self._due - time.monotonic())))
                if self._due > time.monotonic():
                    return
            block, self._next, timeout = self._next, None, 0.0
            yield block

    def close(self) -> None:
        """Release nothing, because the file is closed at its end."""
