"""A plugin with backends that go wrong in ways that no single rule names."""

from __future__ import annotations

from functools import partial

from wlk_core import BackendSpec, hookimpl

KINDS = ("silent", "raising", "hanging", "printing", "exiting", "dying", "unloadable", "picky")
DEVIATIONS = {
    "stale": {"SIL-02": "declared for no reason"},
    "deviating": {"TIME-03": "stable_up_to is a guess", "SIL-04": "see issue 7"},
}


def _load(kind, model, **_options):
    from wlk_fakes_backends import load  # brings numpy

    return load(kind, model)


@hookimpl
def wlk_backends():
    """Offer one backend for each way to go wrong."""
    return [
        BackendSpec(
            name=f"fake-{kind}",
            api=1,
            summary=f"a backend that is {kind}",
            load=partial(_load, kind),
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
