"""The command ``transcribe``: recordings to text, live, file after file."""

from __future__ import annotations

from contextlib import ExitStack, closing, redirect_stdout
from pathlib import Path
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from wlk_core.cli.main import registry_of
from wlk_core.cli.options import Choice, stream_options
from wlk_core.cli.outputs import (
    SUFFIXES,
    ArrayOutput,
    FileOutput,
    StandardOutput,
    plan_outputs,
)
from wlk_core.cli.stops import STOPS
from wlk_core.cli.terminal import print_error
from wlk_core.errors import OptionError, WLKError
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.backend import Backend
    from wlk_core.cli.live_view import LiveView
    from wlk_core.cli.writers import Outcome, Output, Writer
    from wlk_core.session.events import Event
    from wlk_core.vad import GateParameters

__all__ = ["session_events", "transcribe"]


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@stream_options
@click.option(
    "--chunk-seconds",
    type=click.FloatRange(0, 86_400, min_open=True),
    default=1.0,
    show_default=True,
    help="Seconds of audio given to the backend at a time: changes when words come, not which.",
)
@click.option("--realtime", is_flag=True, help="Read a file at the speed at which it was spoken.")
@click.option(
    "--format",
    "style",
    type=click.Choice(list(SUFFIXES)),
    help="Output format.  [default: that of the ending of --output, else text]",
)
@click.option(
    "--output",
    "target",
    metavar="PATH",
    type=click.Path(),
    help="File for the result, or directory for several.  [default: standard output]",
)
@click.option("--force", is_flag=True, help="Replace output files that exist.")
@click.pass_context
def transcribe(
    context: click.Context,
    /,
    *,
    files: tuple[str, ...],
    chunk_seconds: float,
    realtime: bool,
    style: str | None,
    target: str | None,
    force: bool,
    **flags: Any,
) -> int:
    """
    Transcribe each FILE, with words as soon as they are final.

    FILE is any recording or video that FFmpeg reads, or - for standard input.  A file that cannot
    be read is one line on standard error and does not stop the others.
    """
    plan = plan_outputs(files, target, style, is_forced=force)
    registry = registry_of(context)
    choice = Choice(registry, **flags)
    settings = choice.settings
    jobs = []
    for file, (kind, path) in zip(files, plan, strict=True):
        try:  # before a model is loaded for it
            jobs.append((file, kind, path, _duration(file)))
        except (WLKError, OSError) as error:
            _report(file, error)
    failures = len(files) - len(jobs)

    from wlk_core.audio import may_be_live  # noqa: PLC0415 -- brings av
    from wlk_core.cli.live_view import LiveView, loading  # noqa: PLC0415 -- brings numpy
    from wlk_core.cli.writers import Outcome, Writer  # noqa: PLC0415 -- as above

    with ExitStack() as stack:
        view = LiveView()
        by_line = sys.stdout.isatty() and view.is_live
        results: Output = StandardOutput(sys.stdout, view.hide)
        stack.enter_context(redirect_stdout(sys.stderr))  # for what plugins print
        if jobs:
            with loading(f"{settings.spec.name} {settings.model}"):
                backend = stack.enter_context(settings.load(registry))
            stack.callback(view.hide)
        if plan[0] == ("json", None) and len(files) > 1:
            results = ArrayOutput(results)
            stack.callback(results.end)
            stack.callback(STOPS.hold)
        for number, (file, kind, path, duration) in enumerate(jobs, 1):
            count = f"  ({number} of {len(jobs)})" if len(files) > 1 else ""
            view.begin(f"{Path(file).name}{count}", duration)
            options = settings.options.stream
            if not realtime and not may_be_live(file):
                options = settings.spec.recording_options(options)
            output = results if path is None else FileOutput(path, is_whole=kind == "json")
            writer = Writer(kind, output, by_line=by_line and path is None)
            outcome = Outcome.of(file, settings)
            events = session_events(
                backend,
                outcome,
                task=choice.task,
                options=options,
                chunk_seconds=chunk_seconds,
                realtime=realtime,
                vad=choice.vad,
            )
            try:
                _write(events, outcome, writer, view)
            except (BrokenPipeError, OptionError):
                raise  # it would be the same with every other file
            except (WLKError, OSError) as error:
                failures += 1
                view.hide()
                _report(file, error)
    return 1 if failures else 0


def session_events(
    backend: Backend,
    outcome: Outcome,
    *,
    task: str = "transcribe",
    options: Mapping[str, Any] | None = None,
    chunk_seconds: float = 1.0,
    realtime: bool = False,
    vad: bool | GateParameters = True,
) -> Generator[Event]:
    """
    Run the recording of *outcome* through a stream of its own and keep *outcome* up to date.

    Raises:
        AudioFormatError, OSError: the recording cannot be read, or not to its end.
        BackendError: the engine failed.

    """
    from wlk_core.audio import decode_file, rechunk  # noqa: PLC0415 -- brings av
    from wlk_core.session import End, Session  # noqa: PLC0415 -- brings numpy
    from wlk_core.session.event_streams import new_chunker, run_session  # noqa: PLC0415 -- as above
    from wlk_core.vad import silence_gate  # noqa: PLC0415 -- loads its model

    chunker = new_chunker(chunk_seconds, SAMPLE_RATE)
    pieces: Iterable[NDArray[np.float32]] = decode_file(outcome.file)
    if realtime:
        pieces = _as_spoken(rechunk(pieces, max(1, round(chunk_seconds * SAMPLE_RATE))))
    processor = backend.create_processor(language=outcome.language, task=task, **(options or {}))
    session = Session(processor, gate=silence_gate(vad))
    events = run_session(processor, session, STOPS.between(pieces), chunker)
    began = time.perf_counter()
    try:
        with closing(events):
            for event in events:
                if isinstance(event, End):
                    outcome.end(event, time.perf_counter() - began)
                else:
                    outcome.add(event)
                yield event
    finally:
        outcome.stats = outcome.stats or processor.stats  # of one that failed, its work so far


def _as_spoken(pieces: Iterable[NDArray[np.float32]]) -> Iterator[NDArray[np.float32]]:
    """Yield each piece when its end has been spoken."""
    due = time.monotonic()
    for piece in pieces:
        due += len(piece) / SAMPLE_RATE
        time.sleep(max(0.0, due - time.monotonic()))
        yield piece


def _write(events: Generator[Event], outcome: Outcome, writer: Writer, view: LiveView) -> None:
    """Write the events of one recording, and complete its results however it ended."""
    try:
        with closing(events):
            for event in events:
                writer.write(event, outcome)
                view.show(event)
    except BaseException as error:
        outcome.incomplete = " ".join(str(error).split()) or "interrupted"
        raise
    finally:
        STOPS.hold()
        writer.finish(outcome)
    STOPS.release()
    if not outcome.has_words:
        view.hide()
        print_error(f"{outcome.file}: no words were recognised by model {outcome.model}")


def _duration(file: str) -> float | None:
    """Return the length of a recording if its header has it; nothing is read from a pipe."""
    from wlk_core.audio import audio_duration, may_be_live  # noqa: PLC0415 -- brings av

    if file == "-" and sys.stdin is None:
        raise OSError("standard input is closed; give a file, or pipe a recording in")
    return None if may_be_live(file) else audio_duration(file)


def _report(file: str, error: Exception) -> None:
    print_error(error if Path(file).name in str(error) else f"{file}: {error}")
