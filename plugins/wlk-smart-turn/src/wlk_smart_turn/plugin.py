"""Declare the turn detector, without importing ONNX Runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wlk_core.plugins import AnnotatorSpec, Option, hookimpl, standard_options

if TYPE_CHECKING:
    from collections.abc import Iterable

SMART_TURN = AnnotatorSpec(
    kind="turn-detector",
    name="smart-turn",
    api=1,
    summary="Pipecat's smart-turn v3: in a pause, decides whether the speaker has finished",
    load="wlk_smart_turn.backend:load",
    options=(
        Option(
            name="threshold",
            type=float,
            default=0.95,  # ends a turn at 7 of 92 pauses within sentences; 0.9 at 12 of them
            minimum=0.01,
            maximum=0.99,
            help="probability from which a turn counts as over",
        ),
        standard_options.CACHE_DIR,
    ),
    models={"smart-turn-v3": "pipecat-ai/smart-turn-v3"},
    default_model="smart-turn-v3",
    model_sizes={"smart-turn-v3": 9_000_000},
    model_licences={"smart-turn-v3": "bsd-2-clause"},
    model_files=("smart-turn-v3.2-cpu.onnx",),
    requires={"onnxruntime": "pip install wlk-smart-turn"},
)


@hookimpl
def wlk_turn_detectors() -> Iterable[AnnotatorSpec]:
    """Return the turn detector of this distribution."""
    return (SMART_TURN,)
