"""The command ``demo``: the bundled sample becomes timed words, live."""

from __future__ import annotations

from difflib import SequenceMatcher
from pathlib import Path
from statistics import median
import sys
import time
from typing import TYPE_CHECKING

import attrs
import click

from wlk_core.cli.main import registry_of
from wlk_core.cli.sample import demo_sample
from wlk_core.cli.terminal import echo
from wlk_core.config import choose_settings
from wlk_core.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wlk_core.backend import BackendSpec
    from wlk_core.cli.sample import SampleWord
    from wlk_core.cli.serialize import Outcome
    from wlk_core.registry import Registry
    from wlk_core.tokens import ASRToken

__all__ = ["demo"]

MODEL = "digits"
_CHUNK_SECONDS = 0.5  # short enough to look live


@attrs.frozen
class TimedWord:
    """A committed word and the moment, in seconds of the stream, at which it was committed."""

    text: str
    moment: float


@click.command(short_help="Transcribe the bundled sample.")
@click.option("--backend", metavar="NAME", help="Backend to use; see: wlk-core backends.")
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
    from wlk_core.cli.live_view import loading, open_live_view  # noqa: PLC0415 -- brings numpy
    from wlk_core.cli.outputs import StandardOutput  # noqa: PLC0415 -- as above
    from wlk_core.cli.runner import TranscribeConfig, session_events  # noqa: PLC0415 -- as above
    from wlk_core.cli.serialize import Outcome  # noqa: PLC0415 -- brings numpy
    from wlk_core.session import Commit  # noqa: PLC0415 -- brings numpy

    registry = registry_of(context)
    spec = _capable(registry, backend)
    sample = demo_sample()
    if save is not None:
        _save_copy(sample.path, Path(save))
    seconds = audio_duration(sample.path)
    config = TranscribeConfig(
        spec=spec, model=MODEL, chunk_seconds=_CHUNK_SECONDS, realtime=not fast
    )
    outcome = Outcome(file=str(sample.path), backend=spec.name, model=MODEL)
    words: list[TimedWord] = []
    with loading(f"{spec.name} {MODEL}"):
        loaded = registry.load_backend(spec.name, MODEL)
    with loaded:
        loaded.warmup()
        echo(f"{seconds:.1f} s of spoken digits, transcribed by {spec.name}:")
        with open_live_view(shows_committed=False) as view:
            output = StandardOutput(view.hide if sys.stdout.isatty() else lambda: None)
            view.begin(sample.path.stem, seconds)
            began = time.perf_counter()
            for event in session_events(config, loaded, outcome.file, outcome):
                if isinstance(event, Commit):
                    moment = event.audio_time if fast else time.perf_counter() - began
                    words += (TimedWord(token.text.strip(), moment) for token in event.tokens)
                    output.write("".join(map(_line, event.tokens)))
                view.show(event)
    echo(_figures(outcome, words, sample.words, fast=fast))


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


def _save_copy(recording: Path, path: Path) -> None:
    """Copy the recording to *path*, which may be a copy of it already."""
    content = recording.read_bytes()
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileNotFoundError:
        raise click.UsageError(f"--save {path}: there is no directory {path.parent}") from None
    except FileExistsError:
        if not path.is_file() or path.read_bytes() != content:
            raise click.UsageError(f"--save {path}: it exists; choose another path") from None


def _line(token: ASRToken) -> str:
    return f"{token.start:8.2f} {token.end:7.2f}  {token.text.strip()}\n"


def _figures(
    outcome: Outcome, words: Sequence[TimedWord], spoken: Sequence[SampleWord], *, fast: bool
) -> str:
    delays = list(_delays(words, spoken))
    counts = f"{len(words)} words, {len(delays)} of the {len(spoken)} spoken"
    lines = [f"{outcome.audio_time:.2f} s of audio, {counts}"]
    if delays:
        included = "computing left out" if fast else "computing included"
        lines.append(f"median latency {median(delays):.2f} s after the end of a word, {included}")
    if outcome.stats is not None and outcome.audio_time:
        factor = outcome.stats.busy_seconds / outcome.audio_time
        lines.append(f"real-time factor {factor:.3f} (computing / audio)")
    return "\n".join(lines)


def _delays(words: Sequence[TimedWord], spoken: Sequence[SampleWord]) -> Iterator[float]:
    """Yield how long after its known end each correct word was committed."""
    texts = [word.text for word in words]
    matcher = SequenceMatcher(None, texts, [word.text for word in spoken], autojunk=False)
    for match in matcher.get_matching_blocks():
        for offset in range(match.size):
            yield words[match.a + offset].moment - spoken[match.b + offset].end
