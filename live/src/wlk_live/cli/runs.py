"""Transcribe the recordings of a command, one after another or several at once."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
import sys
import threading
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.cli.terminal import print_error
from wlk_core.errors import AudioFormatError, WLKError
from wlk_core.processor import SAMPLE_RATE
from wlk_core.untrusted import printable
from wlk_live import microphone
from wlk_live.audio import audio_duration, channel_count, may_be_live
from wlk_live.channels import MAX_CHANNELS
from wlk_live.cli.channel_format import Channels
from wlk_live.cli.formats import JSONArray, Outcome, new_format
from wlk_live.cli.late_speakers import LateSpeakers
from wlk_live.cli.outputs import LiveView, Output, TextFile, WavFile
from wlk_live.cli.plan import Target
from wlk_live.cli.playback import read_file
from wlk_live.cli.progress import Progress
from wlk_live.cli.run import Run, named
from wlk_live.cli.signals import MainThread, Threads, hold_signals
from wlk_live.session.recordings import streams_at_once

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wlk_core.backend import Backend
    from wlk_live.cli.options import Choice
    from wlk_live.cli.plan import Job
    from wlk_live.session.driver import Read


def transcribe_all(
    choice: Choice,
    jobs: Sequence[Job],
    *,
    device: str | None = None,
    chunk_seconds: float = 0.1,
    is_realtime: bool = True,
    is_live: bool = False,
) -> int:
    """
    Transcribe the recordings of *jobs*, or the microphone *device*, and return the exit status.

    With *is_realtime* recordings are read at the speed at which they were spoken.
    """
    settings, view = choice.settings, LiveView(choice.layout.speaker_names)
    is_array = len(jobs) > 1 and jobs[0].targets == (Target("json", None),)
    is_viewed = sys.stdout.isatty() and sys.stderr.isatty()
    readable = _readable(jobs, by_channel=choice.by_channel)
    status = 0 if len(readable) == len(jobs) else 1
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(sys.stderr))  # what plugins print
        array = stack.enter_context(_json_array(view)) if is_array else None
        if not readable:
            return status
        annotators = choice.open_annotators(stack)  # a missing one is reported before the model
        stack.callback(view.close)
        view.draw(printable(f"loading {settings.spec.name} {settings.model} ..."))
        backend = stack.enter_context(settings.load(choice.registry))
        if is_realtime:
            backend.warmup()
        streams = 1 if is_realtime else min(len(readable), streams_at_once(settings.spec))
        runs = Runs(
            choice=choice,
            backend=backend,
            view=view,
            stack=stack,
            array=array,
            device=device,
            chunk_seconds=chunk_seconds,
            is_realtime=is_realtime,
            is_live=is_live,
            is_viewed=is_viewed,
            count=len(readable),
            signals=MainThread() if streams == 1 else Threads(),
        )
        return max(status, runs.execute(readable, streams, annotators))


@attrs.frozen
class _Recording:
    """A job that can be read, its length in seconds, if it has one, and its channels."""

    job: Job
    seconds: float | None
    channels: Sequence[int | None]  # to transcribe: [None] for their mean

    @property
    def work(self) -> float | None:
        """Seconds of audio to transcribe."""
        return None if self.seconds is None else self.seconds * len(self.channels)


def _readable(jobs: Sequence[Job], *, by_channel: bool) -> list[_Recording]:
    """Return the jobs whose files can be read."""
    # Before a model is loaded.  Nothing is read from a pipe before its turn.
    readable: list[_Recording] = []
    for job in jobs:
        if job.file is None or (may_be_live(job.file) and not by_channel):
            readable.append(_Recording(job, None, [None]))
            continue
        try:
            channels = _channels(job.file) if by_channel else [None]
            readable.append(_Recording(job, audio_duration(job.file), channels))
        except (WLKError, OSError) as error:
            print_error(named(error, job.file))
    return readable


def _channels(file: str) -> Sequence[int]:
    if may_be_live(file):
        raise AudioFormatError(f"expected a file for --channels, because it is read twice: {file}")
    count = channel_count(file)
    if count > MAX_CHANNELS:
        raise AudioFormatError(f"expected at most {MAX_CHANNELS} channels, got {count}")
    return range(count)


@contextmanager
def _json_array(view: LiveView) -> Iterator[JSONArray]:
    """Write the end of an array to standard output, however the runs in between end."""
    array = JSONArray()
    try:
        yield array
    finally:
        hold_signals()
        TextFile(view).write(array.end())


@attrs.define(kw_only=True)
class Runs:
    """The runs of a command, one after another or, if the backend batches, at the same time."""

    choice: Choice
    backend: Backend
    view: LiveView
    stack: ExitStack
    array: JSONArray | None
    device: str | None
    chunk_seconds: float
    is_realtime: bool
    is_live: bool
    is_viewed: bool
    count: int
    signals: MainThread | Threads
    _begun: list[Run] = attrs.field(factory=list, init=False)
    _reporting: threading.RLock = attrs.field(factory=threading.RLock, init=False)

    def execute(
        self,
        readable: Sequence[_Recording],
        streams: int,
        annotators: dict[str, Any],
    ) -> int:
        """Transcribe *readable*, *streams* of them at a time; return the exit status."""
        remaining = iter(readable)
        if isinstance(self.signals, MainThread):
            for recording in remaining:
                self._begin(recording, annotators).execute()
                self.view.end()
            return max(run.status for run in self._begun)
        durations = [each.work for each in readable if each.work is not None]
        total = sum(durations) if len(durations) == len(readable) else None
        progress = None if total is None else Progress(total)
        self.view.begin(f"{self.count} files", total, progress=progress, has_words=False)
        idle = [annotators]  # each thread needs its own

        def work() -> None:
            with self._reporting:
                own = idle.pop() if idle else self.choice.open_annotators(self.stack)
            while True:
                with self._reporting:
                    if (recording := next(remaining, None)) is None:
                        return
                    run = self._begin(recording, own)
                run.execute()

        try:
            self.signals.run(work, streams)
        except BaseException as error:
            with self._reporting:
                for run in self._begun:  # one whose engine hangs
                    run.finish(str(error))
            raise
        return max(run.status for run in self._begun)

    def _begin(self, recording: _Recording, annotators: dict[str, Any]) -> Run:
        job, duration, settings = recording.job, recording.work, self.choice.settings
        name = job.file or "microphone"
        if isinstance(self.signals, MainThread):
            number = f"  ({len(self._begun) + 1} of {self.count})" if self.count > 1 else ""
            progress = None if duration is None or self.is_realtime else Progress(duration)
            self.view.begin(f"{Path(name).name}{number}", duration, progress=progress)
        options = settings.options.stream
        if not self.is_realtime and not may_be_live(job.file):
            options = settings.spec.recording_options(options)
        opened: microphone.Microphone | None = None
        reads: list[Read]
        if job.file is None:
            opened = self.stack.enter_context(microphone.Microphone(self.device))
            reads, rate = [opened.read], opened.rate
        else:
            read = partial(read_file, job.file, self.chunk_seconds, is_realtime=self.is_realtime)
            reads = [read(channel=channel) for channel in recording.channels]
            rate = SAMPLE_RATE
        # Results for standard output follow each other there.
        follows = bool(self._begun) and any(target.path is None for target in job.targets)
        run = Run(
            choice=self.choice,
            backend=self.backend,
            options=options,
            reads=reads,
            microphone=opened,
            outcome=Outcome(file=name, settings=settings, language=settings.language),
            outputs=[self._output(target, rate, annotators) for target in job.targets],
            view=self.view,
            annotators=annotators,
            is_live=self.is_live,
            signals=self.signals,
            reporting=self._reporting,
            before=self._begun[-1] if follows else None,
        )
        self._begun.append(run)
        return run

    def _output(self, target: Target, rate: int, annotators: dict[str, Any]) -> Output | WavFile:
        if target.style == "wav" and target.path is not None:
            return WavFile(target.path, rate)
        layout, language = self.choice.layout, self.choice.settings.language
        if self.choice.by_channel:
            channels = Channels(target.style, layout, language, self.array)
            return Output(channels, TextFile(self.view, target.path))
        form = new_format(
            target.style,
            # Somebody reads the words of a live run as they come, before their speakers.
            has_speakers="diarizer" in annotators and not (self.is_live and target.path is None),
            has_translations="translator" in annotators,
            in_lines=self.is_viewed and target.path is None,
            array=self.array,
            layout=layout,
            language=language,
        )
        is_labelled = "diarizer" in annotators and self.choice.layout.languages != "translation"
        if self.is_live and self.is_viewed and target.path is None and is_labelled:
            self.view.has_late_lines = True
            labelled = LateSpeakers(form, annotators["diarizer"].max_delay)
            return Output(labelled, TextFile(self.view, None))
        return Output(form, TextFile(self.view, target.path))
