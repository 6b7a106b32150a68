"""What wlk-pocketsphinx offers: declarations only, nothing heavy is imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core import BackendSpec, Option, hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_core import Backend

__all__ = ["POCKETSPHINX", "wlk_backends"]


def load(model: str | None) -> Backend:
    """Load a grammar; see BackendSpec.load."""
    from wlk_pocketsphinx.backend import PocketSphinxBackend  # noqa: PLC0415 -- brings pocketsphinx

    return PocketSphinxBackend.load(model)


POCKETSPHINX = BackendSpec(
    name="pocketsphinx",
    api=1,
    summary="grammars on PocketSphinx: a small vocabulary, any CPU",
    load=load,
    options=(
        Option(
            name="min_probability",
            type=float,
            default=0.6,
            minimum=0.0,
            maximum=1.0,
            help="posterior below which a word counts as noise",
            scope="stream",
        ),
        Option(
            name="tick_seconds",
            type=float,
            default=1.0,
            minimum=0.2,
            maximum=10.0,
            help="seconds of audio between two hypotheses",
            scope="stream",
        ),
        Option(
            name="buffer_seconds",
            type=float,
            default=6.0,
            minimum=3.0,
            maximum=20.0,
            help="length from which the buffer is cut behind committed words",
            scope="stream",
        ),
    ),
    capabilities={
        "hypothesis",
        "word-times",
        "probabilities",
        "language-forcing",
        "speaker-turns",
        "bounded-state",
    },
    languages=("en",),
    policies=("local-agreement",),
    models={"digits": "bundled"},
    default_model="digits",
    max_delay=3.0,
    bounds={"wer": 0.06, "word_start_median": 0.05, "word_start_bias": 0.05},
    preference=-50,  # a grammar hears what it allows and nothing else: never the default
    requires={"pocketsphinx": "pip install wlk-pocketsphinx"},
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return [POCKETSPHINX]
