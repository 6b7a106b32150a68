"""The command ``listen``: a microphone to text, while the words are spoken."""

from __future__ import annotations

from contextlib import closing, nullcontext
import os
import sys
from typing import TYPE_CHECKING

import click

from wlk_core.cli.live_run import LiveRun
from wlk_core.cli.locks import locked
from wlk_core.cli.main import registry_of
from wlk_core.cli.options import BackendCommand, chosen_vad, live_options
from wlk_core.config import choose_settings
from wlk_core.errors import AudioDeviceError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from wlk_core.annotators import Diarizer
    from wlk_core.cli.live_source import LiveSource
    from wlk_core.cli.live_view import View
    from wlk_core.cli.serialize import Outcome
    from wlk_core.cli.writers import Writer
    from wlk_core.config import Settings

__all__ = ["listen"]

SKIP_TICKS_AFTER = 4.0  # seconds of audio that wait for the model


@click.command(cls=BackendCommand, short_help="Transcribe a microphone.")
@click.option("--device", metavar="NAME", help="Microphone: its number or a part of its name.")
@click.option("--list-devices", is_flag=True, help="List the microphones and exit.")
@click.option("--input", "file", metavar="FILE", help="Play a recording in real time instead.")
@click.option(
    "--save",
    "saves",
    metavar="PATH",
    multiple=True,
    help="Keep the result in a file ending with .txt, .srt, .vtt, .json or .wav; may be repeated.",
)
@click.option("--force", is_flag=True, help="Replace files that exist.")
@click.option(
    "--diarizer",
    metavar="NAME",
    help="Find speakers with this installed plugin, for the live view and the files of --save.",
)
@live_options
@click.pass_context
def listen(
    context: click.Context,
    *,
    device: str | None,
    list_devices: bool,
    file: str | None,
    saves: tuple[str, ...],
    force: bool,
    diarizer: str | None,
    backend: str | None,
    model: str | None,
    language: str | None,
    task: str,
    policy: str | None,
    pairs: tuple[str, ...],
    no_vad: bool,
    vad_threshold: float | None,
    vad_silence: float | None,
    vad_pre_roll: float | None,
    offline: bool,
) -> int:
    """
    Transcribe a microphone until Ctrl-C, with words as soon as they are final.

    The files of --save are kept up to date, and nothing that was committed is lost when the run
    ends.  A microphone needs the package sounddevice: pip install 'wlk-core[mic]'.
    """
    from wlk_core.audio import audio_duration  # noqa: PLC0415 -- brings av
    from wlk_core.cli.live_source import FileSource  # noqa: PLC0415 -- brings numpy and av
    from wlk_core.cli.live_view import loading, open_live_view  # noqa: PLC0415 -- brings numpy
    from wlk_core.cli.saves import check_saves, open_save  # noqa: PLC0415 -- brings numpy
    from wlk_core.microphone import (  # noqa: PLC0415 -- only where it is used
        NO_DEVICE,
        Microphone,
        SoundDevice,
        choose_device,
    )
    from wlk_core.session import Session  # noqa: PLC0415 -- brings numpy
    from wlk_core.vad import silence_gate  # noqa: PLC0415 -- loads a model

    if list_devices:
        devices = SoundDevice().devices()
        if not devices:
            raise AudioDeviceError(NO_DEVICE)
        for found in devices:
            mark = "*" if found.is_default else " "
            click.echo(f"{mark} {found.index:3} {found.name}  ({found.rate} Hz)")
        return 0
    if device is not None and file is not None:
        raise click.UsageError("--device and --input exclude each other; choose one")
    vad = chosen_vad(
        no_vad=no_vad, threshold=vad_threshold, silence=vad_silence, pre_roll=vad_pre_roll
    )
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # the frameworks under the backends read it too
    paths = check_saves(saves, is_forced=force, recording=file)
    registry = registry_of(context)
    settings = choose_settings(
        registry, backend=backend, model=model, language=language, policy=policy, pairs=pairs
    )
    settings.spec.check_task(task)
    if file is None:  # what is absent is reported before a model is loaded
        choose_device(SoundDevice().devices(), device)
    else:
        audio_duration(file)
    finder = None if diarizer is None else registry.load_annotator("diarizer", diarizer)
    with _closing(finder), locked(paths):
        with loading(f"{settings.spec.name} {settings.model}"):
            loaded = settings.load(registry)
        with loaded, open_live_view() as view:
            loaded.warmup()
            processor = loaded.create_processor(
                language=settings.language, task=task, **settings.options.stream
            )
            source: LiveSource = Microphone(device) if file is None else FileSource(file)
            with closing(processor), closing(source):
                session = Session(
                    processor,
                    gate=silence_gate(vad),
                    diarizer=finder,
                    rate=source.rate,
                    skip_ticks_after=SKIP_TICKS_AFTER,
                )
                title = "microphone" if file is None else os.path.basename(file)  # noqa: PTH119
                view.begin(title, None)
                run = LiveRun(
                    source=source,
                    session=session,
                    processor=processor,
                    view=view,
                    writer=_standard_writer(view),
                    saves={
                        path: open_save(path, source.rate, has_speakers=finder is not None)
                        for path in paths
                    },
                    outcome=_outcome(settings, title),
                )
                return run.execute()


def _closing(annotator: Diarizer | None) -> AbstractContextManager[object]:
    return nullcontext() if annotator is None else closing(annotator)


def _standard_writer(view: View) -> Writer:
    from wlk_core.cli.outputs import StandardOutput  # noqa: PLC0415 -- only where it is used
    from wlk_core.cli.writers import new_writer  # noqa: PLC0415 -- brings numpy

    is_terminal = sys.stdout.isatty()
    output = StandardOutput(view.hide if is_terminal else lambda: None)
    return new_writer("text", output, by_line=is_terminal and view.is_live)


def _outcome(settings: Settings, file: str) -> Outcome:
    from wlk_core.cli.serialize import Outcome as NewOutcome  # noqa: PLC0415 -- brings numpy

    return NewOutcome(
        file=file,
        backend=settings.spec.name,
        model=settings.model,
        language=settings.language,
    )
