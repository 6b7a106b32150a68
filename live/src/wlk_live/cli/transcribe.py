"""The commands ``transcribe``, ``listen`` and ``demo``, which turn audio into text."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from wlk_core.cli.main import registry_of
from wlk_core.cli.options import backend_option
from wlk_core.cli.terminal import echo, table
from wlk_core.errors import BackendUnavailable
from wlk_core.options import OptionValues
from wlk_live.cli.options import Choice, caption_options, choose, diarizer_options, stream_options
from wlk_live.cli.plan import STYLES, SUFFIXES, Job, Target, check_target, plan_outputs
from wlk_live.config import Settings, choose_settings
from wlk_live.whisperlivekit import Command

SAMPLE = Path(__file__).with_name("demo.flac")  #: spoken English digits


@click.command(cls=Command)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@diarizer_options
@stream_options
@caption_options
@click.option(
    "--chunk-seconds",
    type=click.FloatRange(0, 86_400, min_open=True),
    default=1.0,
    show_default=True,
    help="Seconds of audio per call.",
)
@click.option(
    "--channels",
    "by_channel",
    is_flag=True,
    help="Transcribe each channel, as a speaker of its own.",
)
@click.option("--realtime", is_flag=True, help="Read a file at the speed at which it was spoken.")
@click.option("--format", "style", type=click.Choice(list(SUFFIXES)), help="Output format.")
@click.option("--output", type=click.Path(), help="File for the result, or directory for several.")
@click.option("--force", is_flag=True, help="Replace output files that exist.")
def transcribe(
    *,
    files: tuple[str, ...],
    chunk_seconds: float,
    realtime: bool,
    style: str | None,
    output: str | None,
    force: bool,
    **flags: Any,
) -> int:
    """
    Transcribe each FILE, printing text as soon as it is final.

    FILE is any recording or video that FFmpeg reads, or - for standard input.  A file that cannot
    be read is reported in one line on standard error and does not stop the others.  The extension
    of --output chooses the format; without --output, text goes to standard output.
    """
    if realtime and flags["by_channel"]:
        raise click.UsageError("--channels and --realtime cannot be used together")
    if math.isnan(chunk_seconds):  # click's range accepts it
        raise click.UsageError("--chunk-seconds: nan is not a number of seconds")
    targets = plan_outputs(files, output, style, is_forced=force)
    jobs = [Job(file, (target,)) for file, target in zip(files, targets, strict=True)]
    choice = choose(registry_of(), **flags)

    from wlk_live.cli.runs import transcribe_all  # noqa: PLC0415 -- brings numpy and av

    return transcribe_all(choice, jobs, chunk_seconds=chunk_seconds, is_realtime=realtime)


@click.command(cls=Command)
@click.option("--device", metavar="NAME", help="Microphone: its number or a part of its name.")
@click.option("--list-devices", is_flag=True, help="List the microphones and exit.")
@click.option("--input", "file", metavar="FILE", help="Play a recording in real time instead.")
@click.option("--save", "saves", metavar="PATH", multiple=True, help="Keep the result in a file.")
@click.option("--force", is_flag=True, help="Replace files that exist.")
@diarizer_options
@stream_options
@caption_options
def listen(
    *,
    device: str | None,
    list_devices: bool,
    file: str | None,
    saves: tuple[str, ...],
    force: bool,
    **flags: Any,
) -> int:
    """
    Transcribe a microphone until Ctrl-C, printing text as soon as it is final.

    --save may be repeated; the file's extension, .txt, .srt, .vtt, .json, .jsonl or .wav, chooses
    the format.  Files are written as words are committed; .json files and those with speakers are
    written at the end.  Nothing that was committed is lost when the run ends.  A microphone needs
    the package sounddevice: pip install 'wlk-live[mic]'.
    """
    from wlk_live.cli.runs import transcribe_all  # noqa: PLC0415 -- brings numpy and av
    from wlk_live.microphone import find_device, input_devices  # noqa: PLC0415 -- only here

    if list_devices:
        rows = [
            ("*" if each["is_default"] else "", str(each["index"]), each["name"])
            for each in input_devices()
        ]
        echo(table(rows) or "no device can record; connect a microphone")
        return 0
    if device is not None and file is not None:
        raise click.UsageError("--device and --input cannot be used together; choose one")
    styles = {**STYLES, ".wav": "wav"}
    saved: dict[Path, Target] = {}  # a path that is given twice is written once
    for path in map(Path, saves):
        style = styles.get(path.suffix.lower())
        if style is None:
            raise click.UsageError(f"--save {path}: expected the extension {', '.join(styles)}")
        check_target(path, "--save", recordings=[file] if file else [], is_forced=force)
        saved[path] = Target(style, path)
    choice = choose(registry_of(), **flags)
    if file is None:
        find_device(device)  # a missing one is reported before a model is loaded
    job = Job(file, (*saved.values(), Target("text", None)))
    return transcribe_all(choice, [job], device=device, is_live=True)


@click.command()
@backend_option(help="Backend to use; see: wlk-core backends.")
@click.option("--fast", is_flag=True, help="Do not wait for the audio to be spoken.")
@click.option("--save", metavar="PATH", help="Keep the recording as a FLAC file too.")
def demo(*, backend: str | None, fast: bool, save: str | None) -> int:
    """
    Transcribe the bundled sample, spoken digits, with the model that comes with a backend.

    Text is printed as soon as it is final.  No network is used.
    """
    registry = registry_of()
    if backend:
        spec = registry.spec(backend)
    else:
        spec = choose_settings(registry).spec
        with_digits = [each for each in registry.usable() if "digits" in each.models]
        if "digits" not in spec.models and with_digits:
            spec = with_digits[0]
    if "digits" not in spec.models:
        raise BackendUnavailable(f"backend {spec.name} has no model digits; see: wlk-core models")
    if save is not None:
        path, sound = Path(save), SAMPLE.read_bytes()
        is_copy = path.is_file() and path.read_bytes() == sound
        check_target(path, "--save", recordings=[], is_forced=is_copy)
        path.write_bytes(sound)
    settings = Settings(spec=spec, model="digits", language=None, options=OptionValues({}, {}))
    choice = Choice(registry=registry, settings=settings)

    from wlk_live.cli.runs import transcribe_all  # noqa: PLC0415 -- brings numpy and av

    job = Job(str(SAMPLE), (Target("text", None),))
    return transcribe_all(choice, [job], is_realtime=not fast)
