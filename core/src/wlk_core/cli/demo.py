"""The command ``demo``: the bundled sample becomes timed words before your eyes."""

from __future__ import annotations

from difflib import SequenceMatcher
from statistics import median
import sys
import time
from typing import TYPE_CHECKING

import attrs
import click

from wlk_core.cli.main import registry_of
from wlk_core.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wlk_core.cli.records import Outcome
    from wlk_core.registry import Registry
    from wlk_core.streaming.words import Word
    from wlk_core.tokens import ASRToken

__all__ = ["demo"]

MODEL = "digits"
SAMPLE = "demo"
_CHUNK_SECONDS = 0.5  # short enough to look live


@attrs.frozen
class Heard:
    """A committed word and the moment, in seconds of the stream, at which it was committed."""

    text: str
    moment: float


@click.command(short_help="Hear the bundled sample.")
@click.option("--backend", metavar="NAME", help="Who listens; see: wlk-core backends.")
@click.option("--fast", is_flag=True, help="Do not wait for the audio to be spoken.")
@click.pass_context
def demo(context: click.Context, *, backend: str | None, fast: bool) -> None:
    """
    Hear the bundled sample, spoken digits, with the model that comes with a backend.

    Each line is a word, with its start and end in seconds, at the moment it is final.  No network
    is used.
    """
    from wlk_core.cli.destinations import StandardOutput  # noqa: PLC0415 -- as below
    from wlk_core.cli.records import Outcome  # noqa: PLC0415 -- brings numpy
    from wlk_core.cli.screen import loading, open_screen  # noqa: PLC0415 -- brings numpy
    from wlk_core.cli.transcribe import Listening  # noqa: PLC0415 -- as above
    from wlk_core.session import Commit  # noqa: PLC0415 -- brings numpy
    from wlk_core.testing.digits import clip_path, load_clip  # noqa: PLC0415 -- brings numpy

    registry = registry_of(context)
    name = backend if backend is not None else _capable(registry)
    spec = registry.spec(name)
    if MODEL not in spec.models:
        raise BackendUnavailable(
            f"backend {name} brings no {MODEL} model for the demo; one that does, if any, is "
            "named by: wlk-core backends"
        )
    clip = load_clip(SAMPLE)
    listening = Listening(
        spec=spec,
        model=MODEL,
        language=None,
        chunk_seconds=_CHUNK_SECONDS,
        realtime=not fast,
    )
    outcome = Outcome(file=str(clip_path(SAMPLE)), backend=name, model=MODEL)
    heard: list[Heard] = []
    click.echo(f"{clip.seconds:.1f} s of spoken digits, heard by {name}:")
    with loading(f"{name} {MODEL}"):
        engine = registry.load_backend(name, MODEL)
    with engine:
        engine.warmup()
        with open_screen(shows_committed=False) as screen:
            out = StandardOutput(screen.hide if sys.stdout.isatty() else lambda: None)
            screen.begin(SAMPLE, clip.seconds)
            began = time.perf_counter()
            for event in listening.events(engine, outcome.file, outcome):
                if isinstance(event, Commit):
                    moment = event.audio_time if fast else time.perf_counter() - began
                    heard += (Heard(token.text.strip(), moment) for token in event.tokens)
                    out.write("".join(map(_line, event.tokens)))
                screen.show(event)
    click.echo(_figures(outcome, heard, clip.words, fast=fast))


def _capable(registry: Registry) -> str:
    """Return the default backend, or the best other one that brings the model."""
    default = registry.default_backend()
    if MODEL in default.models:
        return default.name
    others = [spec for spec in registry.usable() if MODEL in spec.models]
    return others[0].name if others else default.name


def _line(token: ASRToken) -> str:
    return f"{token.start:8.2f} {token.end:7.2f}  {token.text.strip()}\n"


def _figures(
    outcome: Outcome, heard: Sequence[Heard], spoken: Sequence[Word], *, fast: bool
) -> str:
    delays = list(_delays(heard, spoken))
    lines = [
        (
            f"{outcome.audio_time:.2f} s of audio, {len(heard)} words, "
            f"{len(delays)} of the {len(spoken)} spoken"
        )
    ]
    if delays:
        waiting = "computing left out" if fast else "computing included"
        lines.append(f"median latency {median(delays):.2f} s behind the end of a word, {waiting}")
    if outcome.stats is not None and outcome.audio_time:
        factor = outcome.stats.busy_seconds / outcome.audio_time
        lines.append(f"real-time factor {factor:.3f} (computing / audio)")
    return "\n".join(lines)


def _delays(heard: Iterable[Heard], spoken: Iterable[Word]) -> Iterable[float]:
    """Yield how long after its known end each word that was heard right was committed."""
    heard, spoken = list(heard), list(spoken)
    texts = [word.text for word in heard]
    matcher = SequenceMatcher(None, texts, [word.text.strip() for word in spoken], autojunk=False)
    for match in matcher.get_matching_blocks():
        for offset in range(match.size):
            yield heard[match.a + offset].moment - spoken[match.b + offset].end
