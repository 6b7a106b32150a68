"""What the tests of sessions read from their events."""

from __future__ import annotations

from wlk_core.session import Commit


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
