"""The command ``listen``: a microphone to text, while the words are spoken."""

from __future__ import annotations

from contextlib import ExitStack, closing, redirect_stdout
from pathlib import Path
import sys
from typing import TYPE_CHECKING, Any

import click

from wlk_core.cli.main import registry_of
from wlk_core.cli.options import Choice, stream_options
from wlk_core.cli.outputs import SUFFIXES, FileOutput, StandardOutput, check_target
from wlk_core.cli.terminal import echo
from wlk_core.errors import AudioDeviceError

if TYPE_CHECKING:
    from collections.abc import Sequence


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
    **flags: Any,
) -> int:
    """
    Transcribe a microphone until Ctrl-C, with words as soon as they are final.

    The files of --save grow with the words, those with speakers and .json files come in the end.
    Nothing that was committed is lost when the run ends.  A microphone needs the package
    sounddevice: pip install 'wlk-core[mic]'.
    """
    from wlk_core import microphone  # noqa: PLC0415 -- only where it is used
    from wlk_core.audio import audio_duration  # noqa: PLC0415 -- brings av
    from wlk_core.cli.live_view import LiveView, loading  # noqa: PLC0415 -- brings numpy
    from wlk_core.cli.run import FileSource, Run  # noqa: PLC0415 -- as above
    from wlk_core.cli.writers import Outcome, WavFile, Writer, new_format  # noqa: PLC0415 -- as above

    if list_devices:
        if not (devices := microphone.input_devices()):
            raise AudioDeviceError("no device can record; connect a microphone")
        for found in devices:
            mark = "*" if found["is_default"] else " "
            rate = round(found["default_samplerate"])
            echo(f"{mark} {found['index']:3} {found['name']}  ({rate} Hz)")
        return 0
    if device is not None and file is not None:
        raise click.UsageError("--device and --input exclude each other; choose one")
    paths = _check_saves(saves, is_forced=force, recordings=[file] if file else [])
    registry = registry_of(context)
    choice = Choice(registry, **flags)
    settings = choice.settings
    if file is None:  # what is absent is reported before a model is loaded
        microphone.find_device(device)
    else:
        audio_duration(file)
    with ExitStack() as stack:
        view = LiveView()
        output = StandardOutput(view.hide)
        form = new_format("text", by_line=sys.stdout.isatty() and view.is_live)
        stack.enter_context(redirect_stdout(sys.stderr))  # for what plugins print
        speakers = None
        if diarizer is not None:
            speakers = stack.enter_context(closing(registry.load_annotator("diarizer", diarizer)))
        with loading(f"{settings.spec.name} {settings.model}"):
            backend = stack.enter_context(settings.load(registry))
            backend.warmup()
        source = microphone.Microphone(device) if file is None else FileSource(file)
        stack.enter_context(closing(source))
        title = "microphone" if file is None else Path(file).name
        view.begin(title, None)
        targets = [
            WavFile(path, source.rate)
            if style == "wav"
            else Writer(new_format(style, has_speakers=speakers is not None), FileOutput(path))
            for path, style in paths.items()
        ]
        return Run(
            backend,
            source,
            Outcome(file=title, settings=settings),
            [*targets, Writer(form, output)],
            view,
            task=choice.task,
            options=settings.options.stream,
            vad=choice.vad,
            diarizer=speakers,
            is_live=True,
        ).execute()


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
