"""Contradictory declarations of backends and options are refused when they are constructed."""

from __future__ import annotations

import attrs
import pytest

from wlk_core import BackendSpec
from wlk_core.plugins import Option

SPEC = BackendSpec(
    name="toy", api=1, summary="a toy", load="toy:load", policies=["x", "long-form"], max_delay=2.0
)


def test_the_policy_for_recordings_has_a_delay_of_its_own() -> None:
    """The delay that a backend declares applies to its policies for live audio."""
    assert [SPEC.delay_of(policy) for policy in (None, "x", "long-form")] == [2.0, 2.0, 31.0]
    assert SPEC.recording_options({}) == {"policy": "long-form"}
    assert attrs.evolve(SPEC, policies=("x",)).recording_options({}) == {}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"capabilities": ["batching"], "thread_affinity": "same-thread"}, "'toy': batching.* got"),
        ({"options": [Option(name="x"), Option(name="x")]}, "'toy': it declares option x twice"),
        (
            {"options": [Option(name="x", scope="stream", policies=("y",))]},
            "option x is for the policies y, which toy does not declare",
        ),
    ],
)
def test_a_spec_that_no_command_could_use_is_refused(
    fields: dict[str, object], message: str
) -> None:
    """The error names the wrong field as soon as the plugin is imported."""
    with pytest.raises(ValueError, match=message):
        attrs.evolve(SPEC, **fields)  # type: ignore[arg-type]  # as an author without a type checker
