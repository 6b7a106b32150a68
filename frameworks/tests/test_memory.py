from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from wlk_core.errors import BackendUnavailable
from wlk_frameworks.memory import framework_memory, require_memory


def refusal(available: int | None) -> str | None:
    """Require 16 GB of *available* bytes; return the message, None if the model is let through."""
    needed, remedy = 16 * 10**9, "use a small one"
    try:
        require_memory("mini", needed=needed, available=available, device="cuda", remedy=remedy)
    except BackendUnavailable as error:
        return str(error)
    return None


@pytest.mark.parametrize("available", [None, 16 * 10**9, 2**60])
def test_a_model_that_fits_is_let_through(available: int | None) -> None:
    """Exactly enough memory passes, and so does memory that the system does not report."""
    assert refusal(available) is None


@pytest.mark.parametrize(("available", "shown"), [(16 * 10**9 - 1, "16.0"), (8 * 10**9, "8.0")])
def test_a_model_that_does_not_fit_makes_the_backend_unavailable(
    available: int, shown: str
) -> None:
    """One byte less is refused; the message has the model, both sizes, the device and remedy."""
    expected = f"mini needs 16.0 GB of memory, and cuda has {shown} GB; use a small one"
    assert refusal(available) == expected


def test_memory_of_frameworks_counts_those_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLX with what it keeps, and torch on each GPU once CUDA runs; no framework is imported."""
    mlx = SimpleNamespace(get_active_memory=lambda: 3, get_cache_memory=lambda: 4)
    idle = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: False))
    busy = SimpleNamespace(
        cuda=SimpleNamespace(
            is_initialized=lambda: True,
            device_count=lambda: 2,
            memory_allocated=lambda index: 10**index,
        )
    )
    found = []
    for modules in ({}, {"torch": idle}, {"mlx.core": mlx}, {"mlx.core": mlx, "torch": busy}):
        for name in ("mlx.core", "torch"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)
        found.append(framework_memory())
        monkeypatch.undo()

    assert found == [None, None, 7, 18]
