"""Fixtures: sessions over coded audio, a scheduler without threads and a consumer of events."""

from __future__ import annotations

import threading

import attrs
import pytest

from wlk_live.session import Commit, End, Session
from wlk_serve.scheduler import Scheduler


@pytest.fixture
def open_ungated(open_coded):
    """Return a function that opens a session without a gate over coded audio."""

    def open_ungated(*, fail_at=(), before_call=None, **options):
        return Session(open_coded(fail_at, before_call), encoding="f32le", **options)

    return open_ungated


@attrs.define(eq=False)
class Consumer:
    """Collects the events of a session; `ended` is set by the End."""

    events: list = attrs.field(factory=list)
    ended: threading.Event = attrs.field(factory=threading.Event)

    def __call__(self, events):
        """Store *events*."""
        self.events += events
        if isinstance(events[-1], End):
            self.ended.set()

    @property
    def text(self):
        """The committed text."""
        commits = [event for event in self.events if isinstance(event, Commit)]
        return "".join(token.text for event in commits for token in event.tokens)


@pytest.fixture
def manual(clock):
    """Return a scheduler without threads."""
    with Scheduler(workers=0, clock=clock) as scheduler:
        yield scheduler


@pytest.fixture(scope="session")
def new_consumer():
    """Return the class Consumer."""
    return Consumer
