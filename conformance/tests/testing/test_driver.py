"""The driver of a stream: what it records, and when it stops."""

from __future__ import annotations

import pytest

from wlk_conformance.testing import StreamDriver
from wlk_conformance.testing import driver as driver_module
from wlk_core.tokens import ASRToken, Emission


class SlowProcessor:
    """A processor that takes one second of audio a call and commits a word for it."""

    def __init__(self):
        self.inserted = 0
        self.decoded = 0

    def insert_audio_chunk(self, audio, audio_stream_end_time=None):
        """Append audio."""
        self.inserted += len(audio)

    @property
    def has_backlog(self):
        """Whether a whole second waits."""
        return self.inserted - self.decoded >= 16_000

    def process_iter(self, is_last=False):  # noqa: FBT002 -- pinned
        """Decode the next second, if it is complete."""
        tokens = ()
        if self.has_backlog:
            start = self.decoded / 16_000
            tokens = (ASRToken(start, start + 1, " word"),)
            self.decoded += 16_000
        return Emission(tokens, self.decoded / 16_000, self.decoded / 16_000)


def test_a_backlog_that_never_ends_is_reported(monkeypatch):
    """A processor that claims a backlog for ever fails the test instead of hanging it."""
    monkeypatch.setattr(driver_module, "MAX_DRAIN_CALLS", 20)
    monkeypatch.setattr(SlowProcessor, "has_backlog", True)
    driver = StreamDriver(SlowProcessor())

    with pytest.raises(AssertionError, match="after 20 calls"):
        driver.drain()
