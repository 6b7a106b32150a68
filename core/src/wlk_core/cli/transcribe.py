"""The command ``transcribe``: recordings to text, live, file after file."""

from __future__ import annotations

from contextlib import ExitStack, closing
import math
import os
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any

import attrs
import click

from wlk_core.cli.choices import parse_pairs, split_by_scope
from wlk_core.cli.destinations import FileDestination, StandardOutput, plan_outputs
from wlk_core.cli.main import registry_of, say
from wlk_core.errors import OptionError, WLKError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from wlk_core.backend import Backend, BackendSpec
    from wlk_core.cli.destinations import Destination
    from wlk_core.cli.records import Outcome
    from wlk_core.cli.screen import Screen
    from wlk_core.session.events import Event

__all__ = ["Listening", "transcribe"]

FORMATS = ("text", "json", "jsonl", "srt", "vtt")


@attrs.frozen(kw_only=True)
class Listening:
    """How recordings are heard: everything but the recordings themselves."""

    spec: BackendSpec
    model: str | None
    language: str | None
    task: str = "transcribe"
    stream_options: Mapping[str, Any] = attrs.field(factory=dict)
    chunk_seconds: float = 1.0
    realtime: bool = False
    vad: bool = True

    def events(self, backend: Backend, file: str, outcome: Outcome) -> Generator[Event]:
        """
        Run one recording through a stream of its own and keep *outcome* up to date.

        Raises:
            AudioFormatError, OSError: the recording cannot be read, or not to its end.
            BackendError: the engine failed.

        """
        from wlk_core.audio import decode_file  # noqa: PLC0415 -- brings av
        from wlk_core.session import End, transcribe_stream  # noqa: PLC0415 -- brings numpy
        from wlk_core.vad import SilenceGate, SileroDetector  # noqa: PLC0415 -- loads its model

        processor = backend.create_processor(
            language=self.language, task=self.task, **self.stream_options
        )
        try:
            for event in transcribe_stream(
                processor,
                decode_file(file),
                chunk_seconds=self.chunk_seconds,
                gate=SilenceGate(SileroDetector()) if self.vad else None,
                realtime=self.realtime,
            ):
                if isinstance(event, End):
                    outcome.end(event)
                else:
                    outcome.note(event)
                yield event
        finally:
            if outcome.stats is None:
                outcome.stats = processor.stats
            processor.close()


def _seconds(_context: click.Context, _parameter: click.Parameter, value: float) -> float:
    if not 0 < value < math.inf:
        raise click.BadParameter(f"expected a number of seconds above 0, got {value}")
    return value


@click.command(short_help="Write down what is said.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--backend", metavar="NAME", help="Who listens; see: wlk-core backends.")
@click.option("--model", metavar="REF", help="A size, a repository id or a directory.")
@click.option("--language", metavar="CODE|auto", help="What is spoken; by default it is heard.")
@click.option(
    "--task", type=click.Choice(["transcribe", "translate"]), default="transcribe", help="To what."
)
@click.option("--policy", metavar="NAME", help="How text is decided to be final.")
@click.option(
    "--option", "pairs", metavar="KEY=VALUE", multiple=True, help="See wlk-core backends."
)
@click.option(
    "--chunk-seconds",
    type=float,
    default=1.0,
    show_default=True,
    callback=_seconds,
    help="How much audio is given at a time.",
)
@click.option("--realtime", is_flag=True, help="Give the audio when it would have been spoken.")
@click.option("--no-vad", is_flag=True, help="Give the pauses to the model too.")
@click.option("--offline", is_flag=True, help="Never use the network.")
@click.option(
    "--format", "style", type=click.Choice(FORMATS), default="text", show_default=True, help="How."
)
@click.option("--output", metavar="PATH", help="A file, for several recordings a directory.")
@click.pass_context
def transcribe(
    context: click.Context,
    *,
    files: tuple[str, ...],
    backend: str | None,
    model: str | None,
    language: str | None,
    task: str,
    policy: str | None,
    pairs: tuple[str, ...],
    chunk_seconds: float,
    realtime: bool,
    no_vad: bool,
    offline: bool,
    style: str,
    output: str | None,
) -> int:
    """
    Write down what is said in each FILE, words as soon as they are final.

    FILE is any recording or video that FFmpeg reads, or - for standard input.  A file that cannot
    be heard is one line on standard error and does not stop the others.
    """
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # the frameworks under the backends heed it too
    outputs = plan_outputs(files, output, style)
    chosen = parse_pairs(pairs, policy)
    registry = registry_of(context)
    spec = registry.spec(backend) if backend is not None else registry.default_backend()
    backend_options, stream_options = split_by_scope(spec, chosen)
    listening = Listening(
        spec=spec,
        model=model or spec.default_model,
        language=None if language == "auto" else language,
        task=task,
        stream_options=stream_options,
        chunk_seconds=chunk_seconds,
        realtime=realtime,
        vad=not no_vad,
    )
    spec.check_language(listening.language)
    spec.check_task(task)

    run = _Run(
        listening=listening,
        style=style,
        is_several=len(files) > 1,
        has_outputs=output is not None,
    )
    found = [run.look_at(file, path) for file, path in zip(files, outputs, strict=True)]
    if jobs := [job for job in found if job is not None]:
        from wlk_core.cli.screen import loading  # noqa: PLC0415 -- brings numpy

        with loading(f"{spec.name} {listening.model}"):
            engine = registry.load_backend(spec.name, model, **backend_options)
        with engine:
            run.hear_all(engine, jobs)
    elif run.is_array:
        click.echo("[]")
    return 1 if run.has_failed else 0


@attrs.frozen(kw_only=True)
class _Job:
    """A recording that looks like one, its length if the header says so, and its output file."""

    file: str
    path: Path | None
    duration: float | None


@attrs.define(kw_only=True)
class _Run:
    """One call of the command over all of its files."""

    listening: Listening
    style: str
    is_several: bool
    has_outputs: bool
    has_failed: bool = False

    @property
    def is_array(self) -> bool:
        """Whether the results are one JSON array, on standard output."""
        return self.style == "json" and self.is_several and not self.has_outputs

    def look_at(self, file: str, path: Path | None) -> _Job | None:
        """Open *file* before a model is loaded for it; None, and a line, where that fails."""
        try:
            return _Job(file=file, path=path, duration=_duration(file))
        except (WLKError, OSError) as error:
            self._fail(file, error)
            return None

    def hear_all(self, engine: Backend, jobs: Sequence[_Job]) -> None:
        """Hear every recording; one that fails does not stop the others."""
        from wlk_core.cli.screen import open_screen  # noqa: PLC0415 -- brings numpy
        from wlk_core.cli.writers import ArrayDestination  # noqa: PLC0415 -- brings numpy

        with open_screen() as screen, ExitStack() as stack:
            out: Destination = StandardOutput(screen.hide if sys.stdout.isatty() else _nothing)
            if self.is_array:
                out = array = ArrayDestination(out)
                stack.callback(array.end)
            for number, job in enumerate(jobs, 1):
                count = f"  ({number} of {len(jobs)})" if self.is_several else ""
                screen.begin(f"{Path(job.file).name}{count}", job.duration)
                self._hear(engine, job, out, screen)

    def _hear(self, engine: Backend, job: _Job, out: Destination, screen: Screen) -> None:
        from wlk_core.cli.records import Outcome  # noqa: PLC0415 -- brings numpy
        from wlk_core.cli.writers import new_writer  # noqa: PLC0415 -- brings numpy

        if job.path is not None:
            out = FileDestination(job.path, whole=self.style == "json")
        by_line = job.path is None and sys.stdout.isatty() and screen.is_live
        writer = new_writer(self.style, out, by_line=by_line)
        outcome = Outcome(
            file=job.file,
            backend=self.listening.spec.name,
            model=self.listening.model,
            language=self.listening.language,
        )
        try:
            try:
                with closing(self.listening.events(engine, job.file, outcome)) as events:
                    for event in events:
                        writer.take(event)
                        screen.show(event)
            finally:
                if outcome.has_begun:
                    writer.finish(outcome)
        except (BrokenPipeError, OptionError):
            raise  # it would be the same with every other file
        except (WLKError, OSError) as error:
            screen.hide()
            self._fail(job.file, error)

    def _fail(self, file: str, error: Exception) -> None:
        self.has_failed = True
        named = Path(file).name in str(error)
        say(error if named else f"{file}: {error}")


def _duration(file: str) -> float | None:
    """Return the length of a recording if its header tells; nothing is read from a pipe."""
    from wlk_core.audio import audio_duration  # noqa: PLC0415 -- brings av

    if file == "-" or Path(file).is_fifo() or Path(file).is_char_device():
        return None
    return audio_duration(file)


def _nothing() -> None:
    """Clear nothing: standard output is no terminal."""
