"""Declare the backend, without importing its engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import BackendSpec, Option, hookimpl, standard_options

if TYPE_CHECKING:
    from collections.abc import Iterable

POCKETSPHINX = BackendSpec(
    name="pocketsphinx",
    api=1,
    summary="grammars on PocketSphinx: a small vocabulary, any CPU",
    load="wlk_pocketsphinx.backend:load",
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
        standard_options.TICK_SECONDS,
        Option(
            name="buffer_seconds",
            type=float,
            default=6.0,
            minimum=3.0,
            maximum=20.0,
            help="length in seconds above which the buffer is cut after committed words",
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
    preference=-50,  # never the default, because it recognises only the phrases of its grammar
    requires={"pocketsphinx": "pip install wlk-pocketsphinx"},
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the backends of this distribution."""
    return [POCKETSPHINX]
