"""The plugin that offers the scripted backend: no model, coded audio, every rule kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_core import API_VERSION, BackendSpec, Option, hookimpl
from wlk_core.errors import ModelNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wlk_conformance.scripted.backend import ScriptedBackend

__all__ = ["SCRIPTED_SPEC", "wlk_backends"]


def _load(model: str | None, **_options: Any) -> ScriptedBackend:
    if model not in (None, "digits"):
        raise ModelNotFoundError(
            f"the scripted backend has one model, digits; got {model!r}; "
            "leave it out, or use: wlk-conformance scripted --model digits"
        )
    from wlk_conformance.scripted.backend import ScriptedBackend  # noqa: PLC0415 -- brings numpy

    return ScriptedBackend()


SCRIPTED_SPEC = BackendSpec(
    name="scripted",
    api=API_VERSION,
    summary="reads coded audio: no model, the reference for the contract",
    load=_load,
    options=(
        Option(
            name="tick_seconds",
            type=float,
            default=None,
            minimum=0.1,
            maximum=10.0,
            help="seconds of audio between two hypotheses",
            scope="stream",
        ),
    ),
    capabilities=frozenset(
        {
            "hypothesis",
            "word-times",
            "probabilities",
            "language-detection",
            "language-forcing",
            "speaker-turns",
            "bounded-state",
        }
    ),
    languages=("en", "de"),
    policies=("local-agreement", "alignatt", "native"),  # every shape of a recognizer
    models={"digits": "bundled"},
    default_model="digits",
    max_delay=3.0,
    preference=-100,  # never the default where a backend with a model is installed
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Offer the scripted backend."""
    return [SCRIPTED_SPEC]
