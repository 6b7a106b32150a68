"""The consumer of a scheduled session: threads, event loops, slow readers, disconnects."""

from __future__ import annotations

import asyncio
import threading

import pytest

from wlk_conformance.testing import partition
from wlk_core import SessionOverloaded
from wlk_core.session import Commit, End, HypothesisChange
from wlk_core.tokens import Transcript
from wlk_serve.scheduler import Scheduler
from wlk_serve.scheduler.attachment import Outbox

WAIT = 120.0  # seconds after which a test that waits for a thread has failed


def direct(function):
    """Run *function* in the thread that steps."""
    function()


def run(scheduler):
    """Make every step that there is; return their number."""
    return sum(1 for _ in iter(scheduler.step, False))


def test_a_callback_that_raises_detaches_only_its_session(
    new_consumer, manual, open_ungated, speech, text
):
    """The error is logged, and the other session goes on to its End."""
    consumer = new_consumer()

    def fail(_events):
        raise ZeroDivisionError

    for on_events in (fail, consumer):
        session = open_ungated()
        session.receive(speech)
        session.end_audio()
        manual.attach(session, on_events, call=direct)
    run(manual)

    assert text == consumer.text
    assert 0 == len(manual)


def test_a_callback_that_never_returns_holds_up_no_other_session(
    new_consumer, open_ungated, speech, text
):
    """It has a thread of its own, and the one thread that steps goes on."""
    release, consumer = threading.Event(), new_consumer()
    with Scheduler(workers=1) as scheduler:
        for on_events in (lambda _: release.wait(WAIT), consumer):
            session = open_ungated()
            session.receive(speech)
            session.end_audio()
            scheduler.attach(session, on_events)

        assert consumer.ended.wait(WAIT)
        release.set()
    assert text == consumer.text


def test_a_client_that_never_reads_stops_its_own_session_and_loses_nothing(
    new_consumer, clock, open_ungated, speech, text
):
    """Its events are bounded, then its audio is; once it reads, everything comes."""
    with Scheduler(workers=0, clock=clock, max_events=4) as scheduler:
        session = open_ungated(max_backlog_seconds=2.0)
        pending, consumer = [], new_consumer()
        attachment = scheduler.attach(session, consumer, call=pending.append)
        chunks = list(partition(speech, 0.5))
        with pytest.raises(SessionOverloaded, match="wait to be decoded"):
            while True:
                session.receive(chunks[0])
                attachment.notify()
                run(scheduler)
                del chunks[0]

        assert len(attachment.outbox) <= 8
        assert not scheduler.step()
        clock.now += 1000.0
        while pending:
            pending.pop()()
            run(scheduler)
        for chunk in chunks:
            session.receive(chunk)
            attachment.notify()
            run(scheduler)
            while pending:
                pending.pop()()
        session.end_audio()
        attachment.notify()
        while pending or scheduler.step():
            while pending:
                pending.pop()()

        assert text == consumer.text
        assert isinstance(consumer.events[-1], End)


def test_the_time_that_a_client_does_not_read_is_not_lateness_of_the_steps(
    new_consumer, clock, open_ungated, speech
):
    """Otherwise a client that never reads would close the door to others."""
    with Scheduler(workers=0, clock=clock, max_events=1) as scheduler:
        session, pending = open_ungated(), []
        session.receive(speech)
        scheduler.attach(session, new_consumer(), call=pending.append)
        run(scheduler)
        for _ in range(40):
            clock.now += 100.0
            while pending:
                pending.pop()()
            run(scheduler)

        assert all(lateness <= 0 for _, lateness in scheduler._load._steps)


def test_an_outbox_keeps_the_newest_hypothesis_and_everything_else():
    """A hypothesis that was replaced before it was taken is not delivered."""
    outbox = Outbox(max_events=3)
    old, new = (HypothesisChange(Transcript(), time) for time in (1.0, 2.0))
    commits = [Commit((), time) for time in (1.5, 2.5)]
    outbox.put([commits[0], old])
    outbox.put([new, commits[1]])

    assert outbox.is_full
    assert [commits[0], new, commits[1]] == outbox.take()
    assert [] == outbox.take()


def test_detach_waits_for_the_step_and_nothing_comes_after_it(new_consumer, open_ungated, speech):
    """So the processor can be closed after a disconnect in the middle of a step."""
    running, release = threading.Event(), threading.Event()

    def hold():
        running.set()
        release.wait(WAIT)

    session, consumer = open_ungated(before_call=hold), new_consumer()
    with Scheduler(workers=1) as scheduler:
        attachment = scheduler.attach(session, consumer)
        session.receive(speech)
        attachment.notify()
        assert running.wait(WAIT)
        detaching = threading.Thread(target=attachment.detach)
        detaching.start()

        assert not consumer.events
        detaching.join(0.05)
        assert detaching.is_alive()
        release.set()
        detaching.join(WAIT)
        assert not detaching.is_alive()
        assert not attachment.is_attached
        session._worker._processor.close()
    assert not consumer.events


def test_a_callback_may_detach_its_own_session(manual, open_ungated, speech):
    """It does not wait for itself."""
    session, received = open_ungated(), []
    session.receive(speech)
    attachment = manual.attach(
        session, lambda events: (received.append(events), attachment.detach()), call=direct
    )
    run(manual)

    assert 1 == len(received)
    assert 0 == len(manual)


def test_the_events_of_a_session_are_read_on_an_event_loop(
    new_consumer, open_ungated, speech, text
):
    """Two sessions on one thread; the loop is not blocked and each reader gets its End."""

    async def listen(scheduler):
        session = open_ungated()
        attachment = scheduler.attach(session)
        for chunk in partition(speech, 0.5):
            session.receive(chunk)
            attachment.notify()
        session.end_audio()
        attachment.notify()
        return [event async for event in attachment.events()]

    async def main():
        with Scheduler(workers=1, max_events=2) as scheduler:
            return await asyncio.gather(listen(scheduler), listen(scheduler))

    for events in asyncio.run(main()):
        consumer = new_consumer()
        consumer(events)
        assert text == consumer.text
        assert consumer.ended.is_set()


def test_a_callback_can_run_on_an_event_loop(new_consumer, open_ungated, speech, text):
    """Where the program wants it: the loop calls it, no other thread."""

    async def main():
        ended, received = asyncio.Event(), new_consumer()

        def on_events(events):
            received(events)
            if received.ended.is_set():
                ended.set()

        session = open_ungated()
        session.receive(speech)
        session.end_audio()
        loop = asyncio.get_running_loop()
        with Scheduler(workers=1) as scheduler:
            scheduler.attach(session, on_events, call=loop.call_soon_threadsafe)
            await asyncio.wait_for(ended.wait(), WAIT)
        return received

    received = asyncio.run(main())
    assert text == received.text
    assert {threading.current_thread().name} == received.threads


def test_a_reader_of_a_detached_session_ends(open_ungated):
    """A server that detaches a session in one task ends the reader in another."""

    async def main():
        with Scheduler(workers=1) as scheduler:
            attachment = scheduler.attach(open_ungated())
            events = attachment.events()
            waiting = asyncio.ensure_future(anext(events, None))
            await asyncio.sleep(0)
            await asyncio.to_thread(attachment.detach)
            return await asyncio.wait_for(waiting, WAIT)

    assert asyncio.run(main()) is None


@pytest.mark.slow
def test_an_hour_that_is_sent_faster_than_real_time_is_refused_in_parts_and_loses_nothing(
    new_consumer, manual, open_ungated, speech, text
):
    """The sender waits where it is refused; the audio that waits stays within its bound."""
    session, consumer = open_ungated(max_backlog_seconds=30.0, skip_ticks_after=4.0), new_consumer()
    attachment = manual.attach(session, consumer, call=direct)
    rounds, refusals, most = 3600 // 10, 0, 0.0
    for _ in range(rounds):
        while True:
            try:
                session.receive(speech)
            except SessionOverloaded:
                refusals += 1
                manual.step()
            else:
                break
        attachment.notify()
        most = max(most, session.backlog_seconds)
    session.end_audio()
    attachment.notify()
    run(manual)

    assert refusals > 10
    assert most <= 30.0 + len(speech) / 16_000
    assert rounds * len(text.split()) == len(consumer.text.split())
    assert isinstance(consumer.events[-1], End)
