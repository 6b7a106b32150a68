"""One recording or microphone, from its first sample to the last word that is written of it."""

from __future__ import annotations

from contextlib import ExitStack, closing, redirect_stdout
from operator import methodcaller
from pathlib import Path
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from wlk_core import microphone
from wlk_core.audio import audio_duration, decode_file, may_be_live, rechunk
from wlk_core.cli.live_view import LiveView
from wlk_core.cli.outputs import ArrayOutput, Output
from wlk_core.cli.stops import STOPS, Stopped
from wlk_core.cli.terminal import print_error, report
from wlk_core.cli.writers import Outcome, WavFile, Writer, new_format
from wlk_core.errors import AudioFormatError, BackendError, OptionError, WLKError
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session import AudioGap, Failure, Lag, Session
from wlk_core.vad import silence_gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from wlk_core.annotators import Diarizer, Translator
    from wlk_core.backend import Backend
    from wlk_core.cli.options import Choice
    from wlk_core.cli.writers import Target
    from wlk_core.microphone import Captured, Microphone

_WAIT_SECONDS = 0.1
_SKIP_TICKS_AFTER = 4.0  # seconds of audio that wait for the model
_DAY_SECONDS = 86_400.0  # of audio may wait for it, because a microphone cannot


def transcribe_files(
    choice: Choice,
    planned: Sequence[tuple[str, str, Path | None]],
    *,
    chunk_seconds: float,
    is_spoken: bool,
) -> int:
    """Transcribe recordings, each in a format and to a file, or None for standard output."""
    jobs = []
    for file, style, path in planned:
        try:  # before a model is loaded for it; nothing is read from a pipe before its turn
            jobs.append((file, style, path, None if may_be_live(file) else audio_duration(file)))
        except (WLKError, OSError) as error:
            report(file, error)
    has_failed = len(jobs) < len(planned)
    settings = choice.settings
    with ExitStack() as stack:
        view = LiveView()
        by_line = sys.stdout.isatty() and view.is_live
        is_array = planned[0][1:] == ("json", None) and len(planned) > 1
        results = ArrayOutput(before=view.hide) if is_array else Output(before=view.hide)
        stack.enter_context(redirect_stdout(sys.stderr))  # for what plugins print
        if jobs:
            translator = choice.open_translator(stack)  # what is absent is reported first
            stack.callback(view.hide)
            view.draw(choice.loading)
            backend = stack.enter_context(choice.load())
            if is_spoken:
                backend.warmup()
        if isinstance(results, ArrayOutput):
            stack.callback(results.end)
            stack.callback(STOPS.hold)
        for number, (file, style, path, duration) in enumerate(jobs, 1):
            count = f"  ({number} of {len(jobs)})" if len(planned) > 1 else ""
            view.begin(f"{Path(file).name}{count}", duration)
            options = settings.options.stream
            if not is_spoken and not may_be_live(file):
                options = settings.spec.recording_options(options)
            if translator is not None:
                translator.reset()  # after the recording before
            form = new_format(
                style, by_line=by_line and path is None, has_translations=translator is not None
            )
            target = Writer(form, results if path is None else Output(path))
            source = FileSource(file, chunk_seconds, is_spoken=is_spoken)
            outcome = Outcome(file=file, settings=settings)
            status = _run(
                choice,
                backend,
                source,
                outcome,
                targets=[target],
                view=view,
                options=options,
                translator=translator,
            )
            has_failed |= status != 0
            if not status and not outcome.has_words:
                print_error(f"{file}: no words were recognised by model {settings.model}")
    return int(has_failed)


def _run(
    choice: Choice, backend: Backend, source: FileSource, outcome: Outcome, **parts: Any
) -> int:
    try:
        run = Run(choice, backend, source, outcome, **parts)
    except OptionError:
        raise  # it would be the same with every other recording
    except WLKError as error:  # as of a server that is full
        parts["view"].hide()
        report(outcome.file, error)
        return 1
    return run.execute()


def listen_to(
    choice: Choice,
    device: str | None,
    file: str | None,
    paths: Mapping[Path, str],
    diarizer: tuple[str, Mapping[str, str]] | None,
) -> int:
    """
    Transcribe a microphone, or a recording as if it were one.

    *paths* have their formats, and a diarizer its options.
    """
    with ExitStack() as stack:
        view = LiveView()
        output = Output(before=view.hide)
        by_line = sys.stdout.isatty() and view.is_live
        translates = choice.translation is not None
        form = new_format("text", by_line=by_line, has_translations=translates)
        stack.enter_context(redirect_stdout(sys.stderr))  # for what plugins print
        speakers = None
        if diarizer is not None:
            name, chosen = diarizer
            speakers = choice.registry.load_annotator("diarizer", name, **chosen)
            stack.enter_context(closing(speakers))
        translator = choice.open_translator(stack)
        stack.callback(view.hide)
        view.draw(choice.loading)
        backend = stack.enter_context(choice.load())
        backend.warmup()
        source = microphone.Microphone(device) if file is None else FileSource(file)
        stack.enter_context(closing(source))
        title = "microphone" if file is None else Path(file).name
        view.begin(title, None)
        targets = [
            WavFile(path, source.rate)
            if style == "wav"
            else Writer(
                new_format(style, has_speakers=speakers is not None, has_translations=translates),
                Output(path),
            )
            for path, style in paths.items()
        ]
        return Run(
            choice,
            backend,
            source,
            Outcome(file=title, settings=choice.settings),
            targets=[*targets, Writer(form, output)],
            view=view,
            options=choice.settings.options.stream,
            diarizer=speakers,
            translator=translator,
            is_live=True,
        ).execute()


class Run:
    """
    One source through a stream of its own.

    A signal ends the audio of a live run, whose last words are decoded, and any other run at once.
    """

    def __init__(
        self,
        choice: Choice,
        backend: Backend,
        source: Microphone | FileSource,
        outcome: Outcome,
        *,
        targets: Sequence[Target],
        view: LiveView,
        options: Mapping[str, Any],
        diarizer: Diarizer | None = None,
        translator: Translator | None = None,
        is_live: bool = False,
    ) -> None:
        self._source = source
        self._outcome = outcome
        self._targets = list(targets)
        self._view = view
        self._is_live = is_live
        self._processor = backend.create_processor(
            language=outcome.language, task=choice.task, **options
        )
        self._session = Session(
            self._processor,
            gate=silence_gate(choice.vad),
            diarizer=diarizer,
            translator=translator,
            rate=source.rate,
            max_backlog_seconds=_DAY_SECONDS,
            # Only where somebody waits: the words then depend on when the audio came.
            skip_ticks_after=_SKIP_TICKS_AFTER if is_live else None,
        )
        self._status = 0
        self._problem: str | None = None
        self._has_lagged = False

    def execute(self) -> int:
        """Transcribe until the source ends or a signal comes; return the exit status."""
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
            self._processor.close()
            self._each(methodcaller("finish", self._outcome))
            self._view.hide()
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
        # A damaged file gives all the text of its sound part: what came before is decoded.
        except (AudioFormatError, OSError) as error:
            self._fail(error)

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
            elif isinstance(event, Failure) and (self._is_live or _is_off(event)):
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


def _is_off(failure: Failure) -> bool:
    """Return whether an annotator failed, whose results do not come any more."""
    return isinstance(failure.error, BackendError) and not failure.error.retryable


class FileSource:
    """A recording with the calls of `Microphone`; `is_spoken` plays it as it was spoken."""

    rate = SAMPLE_RATE
    problem: str | None = None

    def __init__(self, file: str, chunk_seconds: float = 0.1, *, is_spoken: bool = True) -> None:
        self._chunks = rechunk(decode_file(file), max(1, round(chunk_seconds * SAMPLE_RATE)))
        self._is_spoken = is_spoken
        self._is_over = False
        self._next: Captured | None = None
        self._due = time.monotonic()  # when the end of `_next` has been spoken

    def read(self, timeout: float) -> Iterable[Captured] | None:
        """Return the chunks due after up to *timeout* seconds of waiting; None at the end."""
        # Chunks come one by one, so that an error of the file comes after what is sound before it.
        return None if self._is_over else self._chunks_due(timeout)

    def _chunks_due(self, timeout: float) -> Iterator[Captured]:
        # Where nobody speaks, one comes when the model has no more work and a caller would wait.
        while timeout or self._is_spoken:
            if self._next is None:
                chunk = next(self._chunks, None)
                if chunk is None:
                    self._is_over = True
                    return
                self._next = microphone.Captured(chunk)
                self._due += len(chunk) / SAMPLE_RATE
            if self._is_spoken:
                time.sleep(max(0.0, min(timeout, self._due - time.monotonic())))
                if self._due > time.monotonic():
                    return
            block, self._next, timeout = self._next, None, 0.0
            yield block

    def close(self) -> None:
        """Release nothing, because the file is closed at its end."""
