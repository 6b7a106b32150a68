"""The command ``transcribe``: recordings to text, live, file after file."""

from __future__ import annotations

import os

import click

from wlk_core.cli.locks import locked
from wlk_core.cli.main import registry_of
from wlk_core.cli.options import BackendCommand, chosen_vad, stream_options
from wlk_core.cli.outputs import plan_outputs
from wlk_core.cli.terminal import echo
from wlk_core.config import choose_settings

__all__ = ["transcribe"]

FORMATS = ("text", "json", "jsonl", "srt", "vtt")


@click.command(cls=BackendCommand, short_help="Transcribe recordings.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@stream_options
@click.option("--realtime", is_flag=True, help="Read a file at the speed at which it was spoken.")
@click.option(
    "--format",
    "style",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--output",
    metavar="PATH",
    help="File for the result, or directory for those of several recordings.  [default: standard "
    "output]",
)
@click.option("--force", is_flag=True, help="Replace output files that exist.")
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
    vad_threshold: float | None,
    vad_silence: float | None,
    vad_pre_roll: float | None,
    offline: bool,
    style: str,
    output: str | None,
    force: bool,
) -> int:
    """
    Transcribe each FILE, with words as soon as they are final.

    FILE is any recording or video that FFmpeg reads, or - for standard input.  A file that cannot
    be read is one line on standard error and does not stop the others.
    """
    vad = chosen_vad(
        no_vad=no_vad, threshold=vad_threshold, silence=vad_silence, pre_roll=vad_pre_roll
    )
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # the frameworks under the backends read it too
    output = None if output == "-" else output
    outputs = plan_outputs(files, output, style, is_forced=force)
    registry = registry_of(context)
    settings = choose_settings(
        registry, backend=backend, model=model, language=language, policy=policy, pairs=pairs
    )
    settings.spec.check_task(task)

    from wlk_core.cli.runner import TranscribeConfig, TranscribeRun  # noqa: PLC0415 -- as below

    config = TranscribeConfig(
        spec=settings.spec,
        model=settings.model,
        language=settings.language,
        task=task,
        stream_options=settings.options.stream,
        chunk_seconds=chunk_seconds,
        realtime=realtime,
        vad=vad,
    )
    run = TranscribeRun(
        config=config,
        style=style,
        is_several=len(files) > 1,
        has_outputs=output is not None,
    )
    with locked(outputs):
        probed = [run.probe(file, path) for file, path in zip(files, outputs, strict=True)]
        if jobs := [job for job in probed if job is not None]:
            from wlk_core.cli.live_view import loading  # noqa: PLC0415 -- brings numpy

            with loading(f"{settings.spec.name} {settings.model}"):
                loaded = settings.load(registry)
            with loaded:
                run.transcribe_all(loaded, jobs)
        elif run.is_array:
            echo("[]")
    return 1 if run.has_failed else 0
