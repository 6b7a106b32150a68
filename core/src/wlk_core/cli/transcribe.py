"""The commands ``transcribe`` and ``demo``: recordings to text, live, file after file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wlk_core.cli.main import registry_of
from wlk_core.cli.options import Choice, backend_option, choose, stream_options
from wlk_core.cli.outputs import SUFFIXES, check_target, plan_outputs
from wlk_core.config import Settings, choose_settings
from wlk_core.errors import BackendUnavailable
from wlk_core.options import OptionValues

if TYPE_CHECKING:
    from wlk_core.backend import BackendSpec
    from wlk_core.registry import Registry

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
    choice = choose(registry_of(context), **flags)
    planned = [(file, *each) for file, each in zip(files, plan, strict=True)]

    from wlk_core.cli.run import transcribe_files  # noqa: PLC0415 -- brings numpy and av

    return transcribe_files(choice, planned, chunk_seconds=chunk_seconds, is_spoken=realtime)


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
    spec = _demo_backend(registry, backend)
    options = OptionValues({}, {})
    settings = Settings(spec=spec, model=_DEMO_MODEL, language=None, options=options)
    sample = sample_path()
    if save is not None:
        path, sound = Path(save), sample.read_bytes()
        is_copy = path.is_file() and path.read_bytes() == sound
        check_target(path, "--save", recordings=[], is_forced=is_copy)
        path.write_bytes(sound)

    from wlk_core.cli.run import transcribe_files  # noqa: PLC0415 -- brings numpy and av

    return transcribe_files(
        Choice(registry=registry, settings=settings),
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
