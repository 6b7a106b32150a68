"""A scheduler whose engine other threads of the program use too."""

from __future__ import annotations

from contextlib import contextmanager

from wlk_conformance.testing import partition
from wlk_serve.scheduler import Scheduler


class Turns:
    """Turns of one thread, before which something happens once."""

    def __init__(self):
        self.happens = lambda: None
        self.count = 0

    def __enter__(self):
        self.count += 1
        happens, self.happens = self.happens, lambda: None
        happens()

    def __exit__(self, *_):
        self.count -= 1


@contextmanager
def two_sessions(turns, clock, new_consumer, open_ungated):
    """Yield a scheduler with two sessions, of which the first may wait with much audio."""
    sessions = open_ungated(max_backlog_seconds=4000), open_ungated()
    with Scheduler(workers=0, clock=clock, turns=turns) as scheduler:
        attachments = [
            scheduler.attach(session, new_consumer(), call=lambda function: function())
            for session in sessions
        ]
        yield scheduler, sessions, attachments


def test_a_session_is_chosen_after_the_wait_for_a_turn(new_consumer, clock, open_ungated, speech):
    """Another one may be due earlier by then."""
    turns = Turns()
    with two_sessions(turns, clock, new_consumer, open_ungated) as parts:
        scheduler, (bulk, live), (sender, speaker) = parts
        for chunk in partition(speech, 0.5):
            bulk.receive(chunk)
        sender.notify()
        while bulk.backlog_seconds > 4.0:
            scheduler.step()

        def speak():
            live.receive(speech[:8000])
            speaker.notify()

        before, turns.happens = bulk.backlog_seconds, speak
        scheduler.step()

        assert 0 == live.backlog_seconds
        assert before == bulk.backlog_seconds


def test_every_engine_call_is_made_in_a_turn(new_consumer, clock, open_ungated, speech):
    """And the turn ends with the step."""
    turns = Turns()
    counts = []

    def open_counted(**options):
        return open_ungated(before_call=lambda: counts.append(turns.count), **options)

    with two_sessions(turns, clock, new_consumer, open_counted) as parts:
        scheduler, sessions, attachments = parts
        for session, attachment in zip(sessions, attachments, strict=True):
            session.receive(speech)
            session.end_audio()
            attachment.notify()
        while scheduler.step():
            assert 0 == turns.count

    assert {1} == set(counts)
