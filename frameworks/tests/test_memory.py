from __future__ import annotations

import pytest

from wlk_core.errors import BackendUnavailable
from wlk_frameworks.memory import require_memory


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
