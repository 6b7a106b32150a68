"""The command ``listen``: a microphone to text, while the words are spoken."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wlk_core.cli.main import registry_of
from wlk_core.cli.options import choose, stream_options
from wlk_core.cli.outputs import SUFFIXES, check_target
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
    targets = _check_saves(saves, is_forced=force, recordings=[file] if file else [])
    choice = choose(registry_of(context), **flags)
    if file is None:  # what is absent is reported before a model is loaded
        find_device(device)
    else:
        audio_duration(file)
    return listen_to(choice, device, file, targets, diarizer)


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
