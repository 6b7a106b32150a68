"""A plugin with backends that fail in ways that no single rule describes."""

from __future__ import annotations

from wlk_core.plugins import BackendSpec, hookimpl

KINDS = (
    "silent", "raising", "hanging", "printing", "dying", "unloadable", "picky",
    "stalling", "aborting", "crashing",
)  # fmt: skip
MATCHERS = (
    "sound", "joined", "hello", "every-second", "late", "in-frames", "undeclared-hello",
)  # fmt: skip
FAULTY_STREAMS = (
    "loses-after-second-reset", "loses-after-second-turn", "loses-after-second-flush",
    "loses-after-long-pause", "repeats-after-third-pause",
)  # fmt: skip
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
    ] + [
        *(_matcher(variant) for variant in MATCHERS),
        *(_matcher(variant, "wlk_fakes_matcher_streams:load") for variant in FAULTY_STREAMS),
    ]


#: The declaration of a mediocre recogniser of digits.
MATCHER = {
    "options": (),
    "capabilities": frozenset({"hypothesis", "word-times", "speaker-turns", "bounded-state"}),
    "languages": ("en",),
    "policies": ("local-agreement",),
    "models": {"small": "bundled"},
    "default_model": "small",
    "digit_models": ("small",),
    "bounds": {"wer": 0.25, "invented_words": 3},
}


def _matcher(variant, load="wlk_fakes_matcher:load"):
    """Return the declaration of the matcher, sound or with a fault."""
    digits = () if variant.startswith("undeclared") else ("small",)
    return BackendSpec(
        name=f"matcher-{variant}",
        api=1,
        summary="matches templates of spoken digits",
        load=load,
        max_delay=3.0,
        **{**MATCHER, "digit_models": digits},
    )
