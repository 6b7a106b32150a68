"""The commands ``transcribe`` and ``demo``: recordings to text, live, file after file."""

from __future__ import annotations

from contextlib import ExitStack, closing, redirect_stdout
from pathlib import Path
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from wlk_core.cli.main import registry_of
from wlk_core.cli.options import Choice, backend_option, stream_options
from wlk_core.cli.outputs import (
    SUFFIXES,
    ArrayOutput,
    FileOutput,
    StandardOutput,
    check_target,
    plan_outputs,
)
from wlk_core.cli.stops import STOPS
from wlk_core.cli.terminal import print_error
from wlk_core.config import choose_settings
from wlk_core.errors import BackendUnavailable, OptionError, WLKError
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.backend import Backend, BackendSpec
    from wlk_core.cli.live_view import LiveView
    from wlk_core.cli.writers import Outcome, Writer
    from wlk_core.registry import Registry
    from wlk_core.session.events import Event
    from wlk_core.vad import GateParameters

__all__ = ["demo", "sample_path", "transcribe"]

_DEMO_MODEL = "digits"
_DEMO_CHUNK_SECONDS = 0.5  # short enough to look live


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
    from wlk_core.cli.writers import Outcome, Writer, new_format  # noqa: PLC0415 -- as above

    with ExitStack() as stack:
        view = LiveView()
        by_line = sys.stdout.isatty() and view.is_live
        is_array = plan[0] == ("json", None) and len(files) > 1
        results = ArrayOutput(view.hide) if is_array else StandardOutput(view.hide)
        stack.enter_context(redirect_stdout(sys.stderr))  # for what plugins print
        if jobs:
            with loading(f"{settings.spec.name} {settings.model}"):
                backend = stack.enter_context(settings.load(registry))
            stack.callback(view.hide)
        if isinstance(results, ArrayOutput):
            stack.callback(results.end)
            stack.callback(STOPS.hold)
        for number, (file, kind, path, duration) in enumerate(jobs, 1):
            count = f"  ({number} of {len(jobs)})" if len(files) > 1 else ""
            view.begin(f"{Path(file).name}{count}", duration)
            options = settings.options.stream
            if not realtime and not may_be_live(file):
                options = settings.spec.recording_options(options)
            outcome = Outcome.of(file, settings)
            events = _session_events(
                backend,
                outcome,
                task=choice.task,
                options=options,
                chunk_seconds=chunk_seconds,
                realtime=realtime,
                vad=choice.vad,
            )
            form = new_format(kind, by_line=by_line and path is None)
            writer = Writer(form, results if path is None else FileOutput(path))
            try:
                _write(events, outcome, writer, view)
            except (BrokenPipeError, OptionError):
                raise  # it would be the same with every other file
            except (WLKError, OSError) as error:
                failures += 1
                view.hide()
                _report(file, error)
    return 1 if failures else 0


@click.command()
@backend_option("Backend to use; see: wlk-core backends.")
@click.option("--fast", is_flag=True, help="Do not wait for the audio to be spoken.")
@click.option("--save", metavar="PATH", help="Keep the recording as a FLAC file too.")
@click.pass_context
def demo(context: click.Context, *, backend: str | None, fast: bool, save: str | None) -> None:
    """
    Transcribe the bundled sample, spoken digits, with the model that comes with a backend.

    Each line is a word, with its start and end in seconds, at the moment it is final.  No network
    is used.
    """
    from wlk_core.audio import audio_duration  # noqa: PLC0415 -- brings av
    from wlk_core.cli.live_view import LiveView, loading  # noqa: PLC0415 -- brings numpy
    from wlk_core.cli.writers import Outcome, committed  # noqa: PLC0415 -- brings numpy

    registry = registry_of(context)
    spec = _demo_backend(registry, backend)
    sample = sample_path()
    if save is not None:
        path, sound = Path(save), sample.read_bytes()
        is_copy = path.is_file() and path.read_bytes() == sound
        check_target(path, "--save", recordings=[], is_forced=is_copy)
        path.write_bytes(sound)
    seconds = audio_duration(sample)
    outcome = Outcome(file=str(sample), backend=spec.name, model=_DEMO_MODEL)
    view = LiveView()
    output = StandardOutput(view.hide)
    with redirect_stdout(sys.stderr):  # for what plugins print
        with loading(f"{spec.name} {_DEMO_MODEL}"):
            loaded = registry.load_backend(spec.name, _DEMO_MODEL)
        with loaded:
            loaded.warmup()
            output.write(f"{seconds:.1f} s of spoken digits, transcribed by {spec.name}:\n")
            view.begin(sample.stem, seconds)
            for event in _session_events(
                loaded, outcome, chunk_seconds=_DEMO_CHUNK_SECONDS, realtime=not fast
            ):
                words = committed(event)
                for token in words:
                    output.write(f"{token.start:8.2f} {token.end:7.2f}  {token.text.strip()}\n")
                if not words:  # which has its lines already
                    view.show(event)
            view.hide()
    stats, latency = outcome.stats, outcome.latency
    if latency is not None and stats is not None:
        factor = stats.busy_seconds / outcome.audio_time
        output.write(
            f"{outcome.audio_time:.2f} s of audio, {latency.words} words\n"
            f"final {latency.median:.2f} s after the end of a word (median, computing left out)\n"
            f"real-time factor {factor:.3f} (computing / audio)\n"
        )


def sample_path() -> Path:
    """Return the bundled recording, spoken English digits."""
    return Path(__file__).with_name("clip") / "demo.flac"


def _demo_backend(registry: Registry, name: str | None) -> BackendSpec:
    chosen = registry.spec(name) if name is not None else choose_settings(registry).spec
    if _DEMO_MODEL in chosen.models:
        return chosen
    others = [spec for spec in registry.usable() if _DEMO_MODEL in spec.models]
    if name is None and others:
        return others[0]
    raise BackendUnavailable(
        f"backend {chosen.name} brings no {_DEMO_MODEL} model for the demo; backends that do: "
        f"{', '.join(spec.name for spec in others) or 'none of those installed'}"
    )


def _session_events(
    backend: Backend,
    outcome: Outcome,
    *,
    task: str = "transcribe",
    options: Mapping[str, Any] | None = None,
    chunk_seconds: float = 1.0,
    realtime: bool = False,
    vad: bool | GateParameters = True,
) -> Generator[Event]:
    """Run the recording of *outcome* through a stream of its own and keep *outcome* up to date."""
    from wlk_core.audio import decode_file, rechunk  # noqa: PLC0415 -- brings av
    from wlk_core.session import Session  # noqa: PLC0415 -- brings numpy
    from wlk_core.session.transcription import new_chunker, run_session  # noqa: PLC0415 -- as above
    from wlk_core.vad import silence_gate  # noqa: PLC0415 -- loads its model

    chunker = new_chunker(chunk_seconds, SAMPLE_RATE)
    pieces: Iterable[NDArray[np.float32]] = decode_file(outcome.file)
    if realtime:
        pieces = _as_spoken(rechunk(pieces, max(1, round(chunk_seconds * SAMPLE_RATE))))
    processor = backend.create_processor(language=outcome.language, task=task, **(options or {}))
    session = Session(processor, gate=silence_gate(vad))
    try:
        with closing(run_session(processor, session, STOPS.between(pieces), chunker)) as events:
            for event in events:
                outcome.add(event)
                yield event
    finally:
        # A recording that failed has no end with figures, but the work so far.
        outcome.stats = outcome.stats or processor.stats


def _as_spoken(pieces: Iterable[NDArray[np.float32]]) -> Iterator[NDArray[np.float32]]:
    """Yield each piece when its end has been spoken."""
    due = time.monotonic()
    for piece in pieces:
        due += len(piece) / SAMPLE_RATE
        time.sleep(max(0.0, due - time.monotonic()))
        yield piece


def _write(events: Generator[Event], outcome: Outcome, writer: Writer, view: LiveView) -> None:
    try:
        with closing(events):
            for event in events:
                writer.write(event, outcome)
                view.show(event)
    except BaseException as error:
        outcome.incomplete = " ".join(str(error).split()) or "interrupted"
        raise
    finally:
        # However it ended, what was committed is written before a signal counts.
        STOPS.hold()
        writer.finish(outcome)
    STOPS.release()
    if not outcome.has_words:
        view.hide()
        print_error(f"{outcome.file}: no words were recognised by model {outcome.model}")


def _duration(file: str) -> float | None:
    from wlk_core.audio import audio_duration, may_be_live  # noqa: PLC0415 -- brings av

    # Nothing is read from a pipe before its turn.
    return None if may_be_live(file) else audio_duration(file)


def _report(file: str, error: Exception) -> None:
    print_error(error if Path(file).name in str(error) else f"{file}: {error}")
