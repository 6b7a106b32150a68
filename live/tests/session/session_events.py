"""Helpers that read the events of a session, and a backend with a single stream."""

from __future__ import annotations

from wlk_core import BackendSpec
from wlk_live.session import Commit


def kinds(events, *types):
    """Return the events of these types."""
    return [event for event in events if isinstance(event, types)]


def tokens_of(events):
    """Return the committed tokens."""
    return [token for event in kinds(events, Commit) for token in event.tokens]


def text_of(events):
    """Return the committed text."""
    return "".join(token.text for token in tokens_of(events)).strip()


def stepped(session):
    """Step a session while it has work; return the events."""
    events = []
    while session.has_work:
        events += session.step()
    return events


class BackendOf:
    """A backend with a single stream, which is given or opened by a function."""

    spec = BackendSpec(name="coded", api=1, summary="coded audio", load="wlk_conformance:load")

    def __init__(self, stream):
        self.stream = stream

    def create_processor(self, **_options):
        """Return the stream."""
        return self.stream() if callable(self.stream) else self.stream
