"""The commands ``transcribe``, ``listen`` and ``demo``: from audio to text, word by word."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wlk_core.cli.main import registry_of
from wlk_core.cli.options import Choice, backend_option, choose, stream_options
from wlk_core.cli.outputs import SUFFIXES, check_target, plan_outputs
from wlk_core.cli.terminal import echo
from wlk_core.config import Settings, choose_settings
from wlk_core.errors import AudioDeviceError, BackendUnavailable
from wlk_core.options import OptionValues, parse_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

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
@click.option("--device", metavar="NAME", help="Microphone: its number or a part of its name.")
@click.option("--list-devices", is_flag=True, help="List the microphones and exit.")
@click.option("--input", "file", metavar="FILE", help="Play a recording in real time instead.")
@click.option(
    "--save",
    "saves",
    metavar="PATH",
    multiple=True,
    help="Keep the result in a file ending with .txt, .srt, .vtt, .json, .jsonl or .wav; may be "
    "repeated.",
)
@click.option("--force", is_flag=True, help="Replace files that exist.")
@click.option(
    "--diarizer",
    metavar="NAME[=MODEL]",
    help="Find speakers with this installed plugin, for the live view and the files of --save.",
)
@click.option(
    "--diarizer-option",
    "diarizer_pairs",
    metavar="KEY=VALUE",
    multiple=True,
    help="Option of the diarizer; may be repeated.",
)
@stream_options
@click.pass_context
def listen(
    context: click.Context,
    /,
    *,
    device: str | None,
    list_devices: bool,
    file: str | None,
    saves: tuple[str, ...],
    force: bool,
    diarizer: str | None,
    diarizer_pairs: tuple[str, ...],
    **flags: Any,
) -> int:
    """
    Transcribe a microphone until Ctrl-C, with words as soon as they are final.

    The files of --save grow with the words, those with speakers and .json files come in the end.
    Nothing that was committed is lost when the run ends.  A microphone needs the package
    sounddevice: pip install 'wlk-core[mic]'.
    """
    from wlk_core.audio import audio_duration  # noqa: PLC0415 -- brings av
    from wlk_core.cli.run import listen_to  # noqa: PLC0415 -- as above
    from wlk_core.microphone import find_device, input_devices  # noqa: PLC0415 -- only here

    if list_devices:
        if not (devices := input_devices()):
            raise AudioDeviceError("no device can record; connect a microphone")
        for found in devices:
            mark = "*" if found["is_default"] else " "
            rate = round(found["default_samplerate"])
            echo(f"{mark} {found['index']:3} {found['name']}  ({rate} Hz)")
        return 0
    if device is not None and file is not None:
        raise click.UsageError("--device and --input exclude each other; choose one")
    if diarizer_pairs and diarizer is None:
        raise click.UsageError("--diarizer-option needs a diarizer: --diarizer NAME")
    targets = _check_saves(saves, is_forced=force, recordings=[file] if file else [])
    choice = choose(registry_of(context), **flags)
    if file is None:  # what is absent is reported before a model is loaded
        find_device(device)
    else:
        audio_duration(file)
    speakers = diarizer and (diarizer, parse_pairs(diarizer_pairs))
    return listen_to(choice, device, file, targets, speakers or None)


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


def _check_saves(
    saves: Sequence[str], *, is_forced: bool, recordings: Sequence[str]
) -> dict[Path, str]:
    styles = {suffix: style for style, suffix in SUFFIXES.items()} | {".wav": "wav"}
    targets: dict[Path, str] = {}
    for path in map(Path, saves):
        if path.suffix.lower() not in styles:
            endings = ", ".join(styles)
            raise click.UsageError(f"--save {path}: expected a file that ends with {endings}")
        check_target(path, "--save", recordings=recordings, is_forced=is_forced)
        if path.resolve() in {other.resolve() for other in targets}:
            raise click.UsageError(f"--save {path} is given twice")
        targets[path] = styles[path.suffix.lower()]
    return targets
