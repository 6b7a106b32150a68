"""Transcribe one recording or microphone, and write every word of it."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from pathlib import Path
import signal
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.cli.signals import SIGNALS, SignalReceived
from wlk_core.cli.terminal import print_error
from wlk_core.errors import OptionError, WLKError
from wlk_core.processor import SAMPLE_RATE
from wlk_live.microphone import Captured, Microphone
from wlk_live.session import AudioGap, Failure, Lag, Session
from wlk_live.session.driver import Driver
from wlk_live.vad import silence_gate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    import threading

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.backend import Backend
    from wlk_core.processor import OnlineProcessor
    from wlk_live.cli.formats import Outcome
    from wlk_live.cli.options import Choice
    from wlk_live.cli.outputs import LiveView, Output, WavFile
    from wlk_live.cli.signals import MainThread, Threads
    from wlk_live.session import Event
    from wlk_live.session.driver import Read

_CATCH_UP_AFTER = 4.0  # seconds of audio waiting for the model
_MAX_BACKLOG_SECONDS = 86_400.0  # a day, because a microphone cannot wait for the model


@attrs.define(kw_only=True, eq=False)
class Run:
    """
    Transcribe one source through a stream of its own, or each channel of it one after another.

    On a signal, a live run ends its audio and decodes the last words; any other run ends at once.
    What it writes waits until the run `before`, which writes to the same place, is written.
    """

    choice: Choice
    backend: Backend
    options: Mapping[str, Any]
    reads: Sequence[Read]  #: the source, or each channel of it
    microphone: Microphone | None  #: where the source is read; None for a recording
    outcome: Outcome
    outputs: list[Output | WavFile]
    view: LiveView
    annotators: dict[str, Any]
    is_live: bool
    signals: MainThread | Threads
    reporting: threading.RLock  #: held to write or to print; shared by all runs
    before: Run | None
    status: int = attrs.field(default=0, init=False)  #: the exit status
    _processor: OnlineProcessor = attrs.field(init=False)
    _session: Session = attrs.field(init=False)
    _source: Read = attrs.field(init=False)
    _name: str = attrs.field(init=False)  # of what is read, for the progress
    after: Run | None = attrs.field(default=None, init=False)  #: the run that has this one `before`
    has_finished: bool = attrs.field(default=False, init=False)  #: whether it has nothing to add
    is_written: bool = attrs.field(default=False, init=False)  #: whether all of it is written
    _calls: deque[Callable[[Output | WavFile], None]] = attrs.field(factory=deque, init=False)
    _printed: set[str] = attrs.field(factory=set, init=False)
    _has_lagged: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        if self.before is not None:
            self.before.after = self

    def execute(self) -> None:
        """Transcribe until the source ends or a signal comes."""
        try:
            for channel, source in enumerate(self.reads):
                self._source = source
                self._name = f"{channel} {self.outcome.file}"
                self._transcribe()
                if not self.outputs:
                    break
        except BaseException as error:
            # An invalid option would be refused for every other recording too, and after a broken
            # pipe nobody reads standard output any more.
            concerns_all = isinstance(error, (OptionError, BrokenPipeError))
            if concerns_all or not isinstance(error, (WLKError, OSError)):
                self.outcome.incomplete = " ".join(str(error).split()) or "interrupted"
                raise
            self._fail(error)
        finally:
            # However the run ended, committed text is written before a signal is raised.
            self.signals.hold()
            with self.reporting:
                self.finish(self.outcome.incomplete)
                self.view.hide()
        self.signals.release()
        if self.status == 0 and not self.is_live and not self.outcome.has_words:
            model = self.choice.settings.model
            self._print_once(f"{self.outcome.file}: no words were recognised by model {model}")

    def finish(self, incomplete: str | None) -> None:
        """Write the end of the result, once; *incomplete* is why it is not whole, if so."""
        if self.has_finished:
            return
        self.has_finished, self.outcome.incomplete = True, incomplete
        self._calls.append(lambda output: output.finish(self.outcome))
        run: Run | None = self
        while run is not None and run.has_turn:
            run.write()
            run.is_written = run.has_finished
            run = run.after if run.is_written else None

    @property
    def has_turn(self) -> bool:
        """Whether everything that this run has to follow is written."""
        return self.before is None or self.before.is_written

    def write(self) -> None:
        """Write what has waited."""
        while self._calls:
            call = self._calls.popleft()
            for output in list(self.outputs):
                try:
                    call(output)
                except BrokenPipeError:
                    raise
                except OSError as error:  # other outputs continue; without any the run ends
                    self.outputs.remove(output)
                    self.status = 1
                    self._print_once(error)
        if self.has_finished:
            self.outputs.clear()  # a document is as large as its recording is long

    def _transcribe(self) -> None:
        text_filters = self.annotators.get("text_filters", ())
        others = (each for name, each in self.annotators.items() if name != "text_filters")
        for annotator in (*others, *text_filters):
            annotator.reset()  # after the previous recording
        self.outcome.end = None
        self._processor = self.backend.create_processor(
            language=self.choice.settings.language, task=self.choice.task, **self.options
        )
        with closing(self._processor):
            self._run_session()

    def _run_session(self) -> None:
        self._session = Session(
            self._processor,
            gate=silence_gate(self.choice.vad),
            **self.annotators,
            rate=SAMPLE_RATE if self.microphone is None else self.microphone.rate,
            max_backlog_seconds=_MAX_BACKLOG_SECONDS,
            # Only if somebody waits for the words, which then depend on when the audio came.
            catch_up_after=_CATCH_UP_AFTER if self.is_live else None,
            prepares_flush=self.is_live,
        )
        driver = Driver(self._session, self._read, self._receive)
        try:
            try:
                self._follow(driver)
            except SignalReceived as received:
                if not self.is_live:
                    self._report_all(self._session.settle())
                    raise
                SIGNALS.reset()  # a second signal ends the run within five seconds
                self.signals.hold()
                if received.number != signal.SIGINT:  # Ctrl-C is how a live run usually ends
                    self.status = received.status
                    self.outcome.incomplete = str(received)
                driver.end()
                self._follow(driver)
        finally:
            if self.outcome.end is None:
                self.outcome.stats = self._processor.stats  # the counters so far
        if driver.failure is not None:  # a damaged file gives all the text of its undamaged part
            self._fail(driver.failure)

    def _follow(self, driver: Driver) -> None:
        for events in driver.run():
            self._report_all(events)
            if not self.outputs:
                return

    def _read(self, seconds: float) -> Sequence[Any] | None:
        # A signal is raised here or not at all, because between audio and its written words it
        # would lose some.
        try:
            self.signals.release()
            pieces = self._source(seconds)
        finally:
            self.signals.hold()
        if self.microphone is not None and self.microphone.problem is not None:
            self._print_once(self.microphone.problem)
        return pieces

    def _receive(self, piece: Captured | NDArray[np.float32]) -> None:
        block = piece if isinstance(piece, Captured) else Captured(piece)
        if block.lost_seconds:
            self._session.skip(block.lost_seconds)
        with self.reporting:
            self._to_outputs(lambda output: output.add_audio(block))
        self._session.receive(block.audio)
        if self.view.progress is not None:
            self.view.progress.give(self._name, self._session.audio_time)

    def _report_all(self, events: Sequence[Event]) -> None:
        with self.reporting:
            for event in events:
                self._report(event)

    def _report(self, event: Event) -> None:
        self.outcome.add(event)
        self._to_outputs(lambda output: output.add_event(event))
        self.view.show(event, self._name)
        if isinstance(event, Failure):
            self._report_failure(event)
        elif isinstance(event, Lag) and self.is_live and not self._has_lagged:
            self._report_lag(event)
        elif isinstance(event, AudioGap):
            seconds = event.end - event.start
            self._print_once(f"{seconds:.1f} s of audio were lost, from {event.start:.1f} s on")

    def _report_failure(self, failure: Failure) -> None:
        if failure.is_final:
            self._fail(failure.error)
        # An annotator that failed gives no more results; a call that is retried loses nothing.
        elif self.is_live or not getattr(failure.error, "retryable", True):
            self._print_once(failure.error)

    def _report_lag(self, lag: Lag) -> None:
        self._has_lagged = True
        decoded = max(lag.audio_time - lag.seconds, 0.1)
        factor = self._processor.stats.busy_seconds / decoded
        self._print_once(
            f"{self.choice.settings.model} is too slow for live audio: it takes {factor:.1f} s for "
            "a second of audio on this machine, and skips ticks until it has caught up; "
            "choose a smaller model, or longer ticks with --option tick_seconds=SECONDS"
        )

    def _to_outputs(self, call: Callable[[Output | WavFile], None]) -> None:
        if self.has_finished:
            return  # an engine that hung has answered after all
        self._calls.append(call)
        if self.has_turn:
            self.write()

    def _fail(self, error: Exception) -> None:
        self.status = 1
        self.outcome.incomplete = str(error)
        self._print_once(named(error, self.outcome.file))

    def _print_once(self, text: object) -> None:
        if str(text) not in self._printed:  # a problem that lasts or recurs is printed once
            self._printed.add(str(text))
            with self.view.hidden():
                print_error(text)


def named(error: Exception, file: str) -> str:
    """Return the message of *error*, with the name of *file* if it lacks it."""
    return str(error) if Path(file).name in str(error) else f"{file}: {error}"
