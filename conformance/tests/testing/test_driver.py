"""The driver of a stream stops."""

from __future__ import annotations

import pytest

from wlk_conformance.testing import StreamDriver
from wlk_conformance.testing import driver as driver_module
from wlk_core.tokens import Emission


class EndlessProcessor:
    """A processor that claims a backlog for ever."""

    has_backlog = True

    def process_iter(self, is_last=False):  # noqa: FBT002 -- pinned
        """Commit nothing."""
        return Emission((), 0.0, 0.0)


def test_a_backlog_that_never_ends_is_reported(monkeypatch):
    """It fails the test instead of hanging it."""
    monkeypatch.setattr(driver_module, "MAX_DRAIN_CALLS", 20)
    driver = StreamDriver(EndlessProcessor())

    with pytest.raises(AssertionError, match="after 20 calls"):
        driver.drain()
