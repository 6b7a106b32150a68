"""Transcribe recordings and microphones, and write every word of each."""

from __future__ import annotations

from contextlib import ExitStack, closing, redirect_stdout
from itertools import chain, repeat
from operator import methodcaller
from pathlib import Path
import signal
import sys
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.cli.signals import SIGNALS, SignalReceived
from wlk_core.cli.terminal import print_error
from wlk_core.errors import AudioFormatError, OptionError, WLKError
from wlk_core.untrusted import printable
from wlk_live import microphone
from wlk_live.audio import audio_duration, may_be_live
from wlk_live.cli.writers import Document, LiveView, Outcome, Output, WavFile, new_format
from wlk_live.session import AudioGap, Failure, Lag, Session
from wlk_live.vad import silence_gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wlk_core.backend import Backend
    from wlk_core.processor import OnlineProcessor
    from wlk_live.cli.options import Choice

_WAIT_SECONDS = 0.1  # how long to wait for audio while there is nothing to decode
_SKIP_TICKS_AFTER = 4.0  # seconds of audio waiting for the model
_MAX_BACKLOG_SECONDS = 86_400.0  # a day, because a microphone cannot wait for the model


def transcribe_all(
    choice: Choice,
    planned: Sequence[tuple[str | None, Sequence[tuple[str, Path | None]]]],
    *,
    device: str | None = None,
    chunk_seconds: float = 0.1,
    is_spoken: bool = True,
    is_live: bool = False,
) -> int:
    """
    Transcribe each file of *planned*, or for None the microphone *device*; return the exit status.

    A file comes with the formats of its results and their paths, None for standard output.
    """
    settings, view = choice.settings, LiveView()
    is_viewed = sys.stdout.isatty() and sys.stderr.isatty()
    jobs = []
    for file, targets in planned:
        try:  # before a model is loaded; nothing is read from a pipe before its turn
            duration = None if file is None or may_be_live(file) else audio_duration(file)
            jobs.append((file, targets, duration))
        except (WLKError, OSError) as error:
            print_error(_named(error, str(file)))
    status = int(len(jobs) < len(planned))
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(sys.stderr))  # what plugins print
        array: Iterator[str] | None = None
        if len(planned) > 1 and planned[0][1] == [("json", None)]:
            array = separators = chain(["[\n"], repeat(",\n"))
            tail = Output(Document("json"), view)
            stack.callback(lambda: tail.write("[]\n" if next(separators) == "[\n" else "\n]\n"))
            stack.callback(SIGNALS.hold)
        if not jobs:
            return status
        annotators = choice.open_annotators(stack)  # a missing one is reported before the model

        def output(style: str, path: Path | None) -> Output:
            form = new_format(
                style,
                has_speakers="diarizer" in annotators and path is not None,
                has_translations="translator" in annotators,
                in_lines=is_viewed and path is None,
                separators=array,
            )
            return Output(form, view, path)

        stack.callback(view.hide)
        view.draw(printable(f"loading {settings.spec.name} {settings.model} ..."))
        backend = stack.enter_context(settings.load(choice.registry))
        if is_spoken:
            backend.warmup()
        for number, (file, targets, duration) in enumerate(jobs, 1):
            title = "microphone" if file is None else Path(file).name
            view.begin(f"{title}  ({number} of {len(jobs)})" if len(jobs) > 1 else title, duration)
            options = settings.options.stream
            if not is_spoken and not may_be_live(file):
                options = settings.spec.recording_options(options)
            source = (
                stack.enter_context(microphone.Microphone(device))
                if file is None
                else microphone.FileSource(file, chunk_seconds, is_spoken=is_spoken)
            )
            run = Run(
                choice=choice,
                backend=backend,
                options=options,
                source=source,
                outcome=Outcome(file=file or title, settings=settings, language=settings.language),
                targets=[
                    WavFile(path, source.rate) if path and style == "wav" else output(style, path)
                    for style, path in targets
                ],
                view=view,
                annotators=annotators,
                is_live=is_live,
            )
            run_status = run.execute()
            status = max(status, run_status)
            if not (run_status or is_live or run.outcome.has_words):
                print_error(f"{file}: no words were recognised by model {settings.model}")
    return status


@attrs.define(kw_only=True)
class Run:
    """
    Transcribe one source through a stream of its own.

    On a signal, a live run ends its audio and decodes the last words; any other run ends at once.
    """

    choice: Choice
    backend: Backend
    options: Mapping[str, Any]
    source: microphone.Microphone | microphone.FileSource
    outcome: Outcome
    targets: list[Output | WavFile]
    view: LiveView
    annotators: dict[str, Any]
    is_live: bool
    _processor: OnlineProcessor = attrs.field(init=False)
    _session: Session = attrs.field(init=False)
    _status: int = attrs.field(default=0, init=False)
    _printed: set[str] = attrs.field(factory=set, init=False)
    _has_lagged: bool = attrs.field(default=False, init=False)

    def execute(self) -> int:
        """Transcribe until the source ends or a signal comes; return the exit status."""
        for annotator in self.annotators.values():
            annotator.reset()  # after the previous recording
        try:
            self._processor = self.backend.create_processor(
                language=self.outcome.language, task=self.choice.task, **self.options
            )
            with closing(self._processor):
                self._transcribe()
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
            SIGNALS.hold()
            self._each(methodcaller("finish", self.outcome))
            self.view.hide()
        SIGNALS.release()
        return self._status

    def _transcribe(self) -> None:
        self._session = Session(
            self._processor,
            gate=silence_gate(self.choice.vad),
            **self.annotators,
            rate=self.source.rate,
            max_backlog_seconds=_MAX_BACKLOG_SECONDS,
            # Only if somebody waits for the words, which then depend on when the audio came.
            skip_ticks_after=_SKIP_TICKS_AFTER if self.is_live else None,
        )
        try:
            self._capture()
            self._session.end_audio()
            while self.targets and self._session.has_work:
                self._step()
        finally:  # if the source failed, there is no End, and the counters so far are used
            self.outcome.stats = self.outcome.stats or self._processor.stats

    def _capture(self) -> None:
        try:
            try:
                SIGNALS.release()
                while (captured := self._read()) is not None:
                    SIGNALS.hold()
                    for block in captured:
                        if block.lost_seconds:
                            self._session.skip(block.lost_seconds)
                        self._each(methodcaller("add_audio", block))
                        self._session.receive(block.audio)
                    if not captured:
                        self._step()
                    SIGNALS.release()
            finally:
                SIGNALS.hold()
        except SignalReceived as received:
            if not self.is_live:
                raise
            SIGNALS.reset()  # a second signal ends the run within five seconds
            SIGNALS.hold()
            if received.number != signal.SIGINT:  # Ctrl-C is how a live run usually ends
                self._status = received.status
                self.outcome.incomplete = str(received)
        except BrokenPipeError:
            raise
        # A damaged file gives all the text of its undamaged part: the audio so far is decoded.
        except (AudioFormatError, OSError) as error:
            self._fail(error)

    def _read(self) -> list[microphone.Captured] | None:
        """Return the audio that has come, [] if there is time for a step, None at the end."""
        if not self.targets or self._session.is_over:
            return None
        captured = self.source.read(0.0 if self._session.has_work else _WAIT_SECONDS)
        if self.source.problem is not None:
            self._line(self.source.problem)
        return captured

    def _step(self) -> None:
        for event in self._session.step():
            self.outcome.add(event)
            self._each(methodcaller("add_event", event))
            self.view.show(event)
            if isinstance(event, Failure) and event.is_final:
                self._fail(event.error)
            # An annotator that failed gives no more results; a call that is retried loses nothing.
            elif isinstance(event, Failure):
                if self.is_live or not getattr(event.error, "retryable", True):
                    self._line(event.error)
            elif isinstance(event, Lag) and self.is_live and not self._has_lagged:
                self._report_lag(event)
            elif isinstance(event, AudioGap):
                seconds = event.end - event.start
                self._line(f"{seconds:.1f} s of audio were lost, from {event.start:.1f} s on")

    def _report_lag(self, lag: Lag) -> None:
        self._has_lagged = True
        decoded = max(lag.audio_time - lag.seconds, 0.1)
        factor = self._processor.stats.busy_seconds / decoded
        self._line(
            f"{self.choice.settings.model} is too slow for live audio: it takes {factor:.1f} s for "
            "a second of audio on this machine, and skips ticks until it has caught up; "
            "choose a smaller model, or longer ticks with --option tick_seconds=SECONDS"
        )

    def _each(self, call: Callable[[Output | WavFile], None]) -> None:
        for target in list(self.targets):
            try:
                call(target)
            except BrokenPipeError:
                raise
            except OSError as error:  # other outputs continue; without any the run ends
                self.targets.remove(target)
                self._status = 1
                self._line(error)

    def _fail(self, error: Exception) -> None:
        self._status = 1
        self.outcome.incomplete = str(error)
        self.view.hide()
        print_error(_named(error, self.outcome.file))

    def _line(self, text: object) -> None:
        if str(text) not in self._printed:  # a problem that lasts or recurs is printed once
            self._printed.add(str(text))
            self.view.hide()
            print_error(text)


def _named(error: Exception, file: str) -> str:
    return str(error) if Path(file).name in str(error) else f"{file}: {error}"
