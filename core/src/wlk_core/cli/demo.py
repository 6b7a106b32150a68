"""The command ``demo``: the bundled sample becomes timed words, live."""

from __future__ import annotations

from contextlib import redirect_stdout
from importlib.resources import files
from pathlib import Path
import sys
from typing import TYPE_CHECKING

import click

from wlk_core.cli.main import registry_of
from wlk_core.cli.options import backend_option
from wlk_core.cli.outputs import StandardOutput, check_target
from wlk_core.cli.transcribe import session_events
from wlk_core.config import choose_settings
from wlk_core.errors import BackendUnavailable

if TYPE_CHECKING:
    from wlk_core.backend import BackendSpec
    from wlk_core.registry import Registry

__all__ = ["demo"]

MODEL = "digits"
_CHUNK_SECONDS = 0.5  # short enough to look live


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
    spec = _capable(registry, backend)
    sample = sample_path()
    if save is not None:
        path, sound = Path(save), sample.read_bytes()
        is_copy = path.is_file() and path.read_bytes() == sound
        check_target(path, "--save", recordings=[], is_forced=is_copy)
        path.write_bytes(sound)
    seconds = audio_duration(sample)
    outcome = Outcome(file=str(sample), backend=spec.name, model=MODEL)
    view = LiveView(shows_committed=False)
    output = StandardOutput(sys.stdout, view.hide)
    with redirect_stdout(sys.stderr):  # for what plugins print
        with loading(f"{spec.name} {MODEL}"):
            loaded = registry.load_backend(spec.name, MODEL)
        with loaded:
            loaded.warmup()
            output.write(f"{seconds:.1f} s of spoken digits, transcribed by {spec.name}:\n")
            view.begin(sample.stem, seconds)
            for event in session_events(
                loaded, outcome, chunk_seconds=_CHUNK_SECONDS, realtime=not fast
            ):
                for token in committed(event):
                    output.write(f"{token.start:8.2f} {token.end:7.2f}  {token.text.strip()}\n")
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
    return Path(str(files("wlk_core"))) / "cli" / "clip" / "demo.flac"


def _capable(registry: Registry, name: str | None) -> BackendSpec:
    """Return the backend of that name, else the default or the best other one with the model."""
    chosen = registry.spec(name) if name is not None else choose_settings(registry).spec
    if MODEL in chosen.models:
        return chosen
    others = [spec for spec in registry.usable() if MODEL in spec.models]
    if name is None and others:
        return others[0]
    raise BackendUnavailable(
        f"backend {chosen.name} brings no {MODEL} model for the demo; backends that do: "
        f"{', '.join(spec.name for spec in others) or 'none of those installed'}"
    )
