"""Run recordings through a loaded backend, one after another, and write what comes out."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
import sys
from time import perf_counter
from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.cli.foreign import quietly
from wlk_core.cli.main import print_error
from wlk_core.cli.outputs import FileOutput, StandardOutput
from wlk_core.cli.stops import STOPS, Stopped
from wlk_core.errors import OptionError, WLKError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from wlk_core.backend import Backend, BackendSpec
    from wlk_core.cli.live_view import View
    from wlk_core.cli.outputs import Output
    from wlk_core.cli.serialize import Outcome
    from wlk_core.session.events import Event
    from wlk_core.vad import GateParameters

__all__ = ["Job", "TranscribeConfig", "TranscribeRun", "session_events"]


@attrs.frozen(kw_only=True)
class TranscribeConfig:
    """How recordings are transcribed: everything but the recordings themselves."""

    spec: BackendSpec
    model: str | None
    language: str | None = None
    task: str = "transcribe"
    stream_options: Mapping[str, Any] = attrs.field(factory=dict)
    chunk_seconds: float = 1.0
    realtime: bool = False
    vad: bool | GateParameters = True


@attrs.frozen(kw_only=True)
class Job:
    """A recording that can be opened, its length if the header has it, and its output file."""

    file: str
    path: Path | None
    duration: float | None


def session_events(
    config: TranscribeConfig, backend: Backend, file: str, outcome: Outcome
) -> Generator[Event]:
    """
    Run one recording through a stream of its own and keep *outcome* up to date.

    Raises:
        AudioFormatError, OSError: the recording cannot be read, or not to its end.
        BackendError: the engine failed.

    """
    from wlk_core.audio import decode_file  # noqa: PLC0415 -- brings av
    from wlk_core.session import End, transcribe_stream  # noqa: PLC0415 -- brings numpy
    from wlk_core.vad import silence_gate  # noqa: PLC0415 -- loads its model

    processor = STOPS.shielded(
        backend.create_processor(
            language=config.language, task=config.task, **config.stream_options
        )
    )
    began = perf_counter()
    try:
        events = transcribe_stream(
            processor,
            STOPS.between(decode_file(file)),
            chunk_seconds=config.chunk_seconds,
            gate=silence_gate(config.vad),
            realtime=config.realtime,
        )
        for event in quietly(events):
            if isinstance(event, End):
                outcome.end(event, perf_counter() - began)
            else:
                outcome.add(event)
            yield event
    finally:
        if outcome.stats is None:
            outcome.stats = processor.stats
        processor.close()


@attrs.define(kw_only=True)
class TranscribeRun:
    """One call of the command over all of its files."""

    config: TranscribeConfig
    style: str
    is_several: bool
    has_outputs: bool
    has_failed: bool = False

    @property
    def is_array(self) -> bool:
        """Whether the results are one JSON array, on standard output."""
        return self.style == "json" and self.is_several and not self.has_outputs

    def probe(self, file: str, path: Path | None) -> Job | None:
        """Open *file* before a model is loaded for it; None, and a line, where that fails."""
        try:
            return Job(file=file, path=path, duration=_duration(file))
        except (WLKError, OSError) as error:
            self._fail(file, error)
            return None

    def transcribe_all(self, backend: Backend, jobs: Sequence[Job]) -> None:
        """Transcribe every recording; one that fails does not stop the others."""
        from wlk_core.cli.live_view import open_live_view  # noqa: PLC0415 -- brings numpy
        from wlk_core.cli.writers import ArrayOutput  # noqa: PLC0415 -- brings numpy

        with open_live_view() as view, ExitStack() as stack:
            output: Output = StandardOutput(view.hide if sys.stdout.isatty() else _nothing)
            if self.is_array:
                output = array = ArrayOutput(output)
                stack.callback(array.end)
                stack.callback(STOPS.hold)
            for number, job in enumerate(jobs, 1):
                count = f"  ({number} of {len(jobs)})" if self.is_several else ""
                view.begin(f"{Path(job.file).name}{count}", job.duration)
                self._transcribe_one(backend, job, output, view)

    def _config_for(self, job: Job) -> TranscribeConfig:
        from wlk_core.audio import may_be_live  # noqa: PLC0415 -- brings av

        if self.config.realtime or may_be_live(job.file):
            return self.config
        options = self.config.spec.recording_options(self.config.stream_options)
        return attrs.evolve(self.config, stream_options=options)

    def _transcribe_one(self, backend: Backend, job: Job, output: Output, view: View) -> None:
        from wlk_core.cli.serialize import Outcome  # noqa: PLC0415 -- brings numpy
        from wlk_core.cli.writers import new_writer  # noqa: PLC0415 -- brings numpy

        if job.path is not None:
            output = FileOutput(job.path, whole=self.style == "json")
        by_line = job.path is None and sys.stdout.isatty() and view.is_live
        writer = new_writer(self.style, output, by_line=by_line)
        outcome = Outcome(
            file=job.file,
            backend=self.config.spec.name,
            model=self.config.model,
            language=self.config.language,
        )
        try:
            try:
                config = self._config_for(job)
                with closing(session_events(config, backend, job.file, outcome)) as events:
                    for event in events:
                        writer.write(event)
                        view.show(event)
            except BaseException as error:
                outcome.incomplete = _reason(error)
                raise
            finally:
                STOPS.hold()
                with closing(output):
                    if outcome.has_begun:
                        writer.finish(outcome)
            STOPS.release()
        except (BrokenPipeError, OptionError):
            raise  # it would be the same with every other file
        except (WLKError, OSError) as error:
            view.hide()
            self._fail(job.file, error)

    def _fail(self, file: str, error: Exception) -> None:
        self.has_failed = True
        is_named = Path(file).name in str(error)
        print_error(error if is_named else f"{file}: {error}")


def _duration(file: str) -> float | None:
    """Return the length of a recording if its header has it; nothing is read from a pipe."""
    from wlk_core.audio import audio_duration, may_be_live  # noqa: PLC0415 -- brings av

    if file == "-" and sys.stdin is None:
        raise OSError("standard input is closed; give a file, or pipe a recording in")
    return None if may_be_live(file) else audio_duration(file)


def _reason(error: BaseException) -> str:
    """Return why a recording was not transcribed to its end."""
    if isinstance(error, KeyboardInterrupt):
        return f"stopped by {error.name}" if isinstance(error, Stopped) else "interrupted"
    return " ".join(str(error).split()) or type(error).__name__


def _nothing() -> None:
    """Clear nothing, because standard output is no terminal."""
