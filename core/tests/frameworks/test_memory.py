from __future__ import annotations

import os

import pytest

from wlk_core.errors import BackendUnavailable
from wlk_core.frameworks.memory import physical_memory, require_memory

REMEDY = "choose a quantized model"


def is_refused(*, needed: int, available: int | None) -> bool:
    """Return whether a model of *needed* bytes does not fit into the *available* ones."""
    try:
        require_memory("tiny", needed=needed, available=available, device="cpu", remedy=REMEDY)
    except BackendUnavailable:
        return True
    return False


@pytest.mark.parametrize(("available", "refused"), [(3, True), (4, False), (5, False)])
def test_a_model_needs_as_much_memory_as_there_is(available: int, *, refused: bool) -> None:
    """Equal is enough, and a byte less is not."""
    assert refused == is_refused(needed=4, available=available)


def test_unknown_memory_is_not_checked() -> None:
    """Where the system reports no memory, every model is let through."""
    assert not is_refused(needed=2**60, available=None)


def test_a_model_that_does_not_fit_makes_the_backend_unavailable() -> None:
    """The message has the model, both sizes, the device and the remedy."""
    with pytest.raises(BackendUnavailable) as caught:
        require_memory(
            "mini in float32", needed=16 * 10**9, available=8 * 10**9, device="cuda", remedy=REMEDY
        )

    assert (
        "mini in float32 needs 16.0 GB of memory, and cuda has 8.0 GB; choose a quantized model"
        == str(caught.value)
    )


def test_a_system_that_does_not_report_its_memory_has_none_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Windows has no sysconf."""
    monkeypatch.delattr(os, "sysconf", raising=False)

    assert physical_memory() is None
