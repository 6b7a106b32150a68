"""A command line with one installed backend, which reads coded audio."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def isolated(quiet_environment, own_signals):
    """Isolate every test from the user's settings and the signals of other tests."""


@pytest.fixture
def site(site):
    """Return a site with the backend "toy"."""
    site.install_toy()
    return site
