"""The memory check of a checkpoint."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from wlk_core import BackendUnavailable
from wlk_voxtral.memory import MemoryCheck

CHECK = MemoryCheck(
    directory=Path("model"),
    needed=8_900_000_000,
    available=8_000_000_000,
    device="cuda",
    dtype="bfloat16",
    remedy="another device",
)


def test_weights_larger_than_memory_are_refused():
    """The message gives the needed and the available memory, and what to choose."""
    message = "model takes 8.9 GB of memory in bfloat16, and cuda has 8.0 GB; choose another device"

    with pytest.raises(BackendUnavailable) as caught:
        CHECK.require()
    assert message == str(caught.value)


@pytest.mark.parametrize("available", [8_900_000_000, None], ids=["enough", "unknown"])
def test_weights_that_may_fit_are_accepted(available):
    """A device that reports no memory refuses nothing."""
    attrs.evolve(CHECK, available=available).require()


def test_an_unknown_memory_is_left_out_of_the_message():
    """Loading may fail on a device that reports no memory."""
    error = attrs.evolve(CHECK, available=None).error()

    assert "model takes 8.9 GB of memory in bfloat16; choose another device" == str(error)
