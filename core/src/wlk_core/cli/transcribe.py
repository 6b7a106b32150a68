"""The commands ``transcribe`` and ``demo``: recordings to text, live, file after file."""

from __future__ import annotations

from contextlib import ExitStack, redirect_stdout
from pathlib import Path
import sys
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
from wlk_core.cli.terminal import print_error, report
from wlk_core.config import Settings, choose_settings
from wlk_core.errors import BackendUnavailable, WLKError
from wlk_core.options import OptionValues

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wlk_core.backend import BackendSpec
    from wlk_core.registry import Registry
    from wlk_core.vad import GateParameters

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
    if chunk_seconds != chunk_seconds:  # noqa: PLR0124 -- click's ranges let NaN through
        raise click.UsageError("--chunk-seconds needs a number of seconds, got nan")
    registry = registry_of(context)
    choice = Choice(registry, **flags)
    return _transcribe(
        registry,
        choice.settings,
        [(file, *planned) for file, planned in zip(files, plan, strict=True)],
        chunk_seconds=chunk_seconds,
        is_spoken=realtime,
        task=choice.task,
        vad=choice.vad,
    )


@click.command()
@backend_option("Backend to use; see: wlk-core backends.")
@click.option("--fast", is_flag=True, help="Do not wait for the audio to be spoken.")
@click.option("--save", metavar="PATH", help="Keep the recording as a FLAC file too.")
@click.pass_context
def demo(context: click.Context, *, backend: str | None, fast: bool, save: str | None) -> int:
    """
    Transcribe the bundled sample, spoken digits, with the model that comes with a backend.

    Words are printed as soon as they are final.  No network is used.
    """
    registry = registry_of(context)
    settings = Settings(
        spec=_demo_backend(registry, backend),
        model=_DEMO_MODEL,
        language=None,
        options=OptionValues({}, {}),
    )
    sample = sample_path()
    if save is not None:
        path, sound = Path(save), sample.read_bytes()
        is_copy = path.is_file() and path.read_bytes() == sound
        check_target(path, "--save", recordings=[], is_forced=is_copy)
        path.write_bytes(sound)
    return _transcribe(
        registry,
        settings,
        [(str(sample), "text", None)],
        chunk_seconds=_DEMO_CHUNK_SECONDS,
        is_spoken=not fast,
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


def _transcribe(
    registry: Registry,
    settings: Settings,
    planned: Sequence[tuple[str, str, Path | None]],
    *,
    chunk_seconds: float,
    is_spoken: bool,
    task: str = "transcribe",
    vad: bool | GateParameters = True,
) -> int:
    """Transcribe recordings, each in a format and to a file, or None for standard output."""
    from wlk_core.audio import audio_duration, may_be_live  # noqa: PLC0415 -- brings av
    from wlk_core.cli.live_view import LiveView, loading  # noqa: PLC0415 -- brings numpy
    from wlk_core.cli.run import FileSource, Run  # noqa: PLC0415 -- as above
    from wlk_core.cli.writers import Outcome, Writer, new_format  # noqa: PLC0415 -- as above

    jobs = []
    for file, style, path in planned:
        try:  # before a model is loaded for it; nothing is read from a pipe before its turn
            jobs.append((file, style, path, None if may_be_live(file) else audio_duration(file)))
        except (WLKError, OSError) as error:
            report(file, error)
    has_failed = len(jobs) < len(planned)
    with ExitStack() as stack:
        view = LiveView()
        by_line = sys.stdout.isatty() and view.is_live
        is_array = planned[0][1:] == ("json", None) and len(planned) > 1
        results = ArrayOutput(view.hide) if is_array else StandardOutput(view.hide)
        stack.enter_context(redirect_stdout(sys.stderr))  # for what plugins print
        if jobs:
            with loading(f"{settings.spec.name} {settings.model}"):
                backend = stack.enter_context(settings.load(registry))
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
            form = new_format(style, by_line=by_line and path is None)
            outcome = Outcome(file=file, settings=settings)
            status = Run(
                backend,
                FileSource(file, chunk_seconds, is_spoken=is_spoken),
                outcome,
                [Writer(form, results if path is None else FileOutput(path))],
                view,
                task=task,
                options=options,
                vad=vad,
            ).execute()
            has_failed |= status != 0
            if not status and not outcome.has_words:
                print_error(f"{file}: no words were recognised by model {settings.model}")
    return int(has_failed)
