"""A plugin with backends that fail in ways that no single rule describes."""

from __future__ import annotations

from wlk_core.plugins import BackendSpec, hookimpl

KINDS = (
    "silent",
    "raising",
    "hanging",
    "printing",
    "exiting",
    "dying",
    "unloadable",
    "picky",
    "stalling",
    "aborting",
)
DEVIATIONS = {
    "stale": {"SIL-02": "declared for no reason"},
    "deviating": {"TIME-03": "stable_up_to is a guess", "SIL-04": "see the README"},
}


@hookimpl
def wlk_backends():
    """Offer one backend for each way to fail."""
    return [
        BackendSpec(
            name=f"fake-{kind}",
            api=1,
            summary=f"a backend that is {kind}",
            load="wlk_fakes_backends:load",
            languages=("en", "de"),
            capabilities=frozenset(
                {
                    "hypothesis",
                    "word-times",
                    "probabilities",
                    "language-detection",
                    "language-forcing",
                    "speaker-turns",
                }
            ),
            policies=("local-agreement",),
            default_model="digits",
            max_delay=3.0,
            deviations=DEVIATIONS.get(kind, {}),
        )
        for kind in (*KINDS, *DEVIATIONS)
    ]
