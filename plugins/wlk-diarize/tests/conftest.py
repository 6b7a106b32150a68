"""A diarizer that needs no models."""

from __future__ import annotations

from pathlib import Path
import sys

import pytest

from wlk_diarize.engine.diarizer import ClusteringDiarizer

sys.path[:0] = [str(Path(__file__).parent)]

from tone_voices import ToneNetworks  # noqa: E402 -- needs the line above


@pytest.fixture
def networks():
    """Return networks that record how much audio they get."""
    return ToneNetworks()


@pytest.fixture
def diarizer(networks):
    """Return a diarizer for up to eight speakers."""
    return ClusteringDiarizer(networks, max_speakers=8)
