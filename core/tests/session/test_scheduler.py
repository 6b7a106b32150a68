"""Many sessions on one model: order, isolation, back-pressure, admission."""

from __future__ import annotations

import asyncio
import threading

import attrs
import pytest

from wlk_core import BackendError, OptionError, SessionOverloaded, StreamClosed
from wlk_core.session import Commit, End, Failure, HypothesisChange, Scheduler, Session
from wlk_core.session.outbox import Outbox
from wlk_core.testing import partition
from wlk_core.tokens import Transcript

WAIT = 30.0  # seconds after which a test that waits for a thread has failed


@attrs.define
class Clock:
    """A clock that stands still until a test moves it."""

    now: float = 100.0

    def __call__(self):
        """Return the time."""
        return self.now


@attrs.define(eq=False)
class Consumer:
    """Collects the events of a session; `ended` is set by the End."""

    events: list = attrs.field(factory=list)
    ended: threading.Event = attrs.field(factory=threading.Event)
    threads: set = attrs.field(factory=set)

    def __call__(self, events):
        """Take events."""
        self.threads.add(threading.current_thread().name)
        self.events += events
        if isinstance(events[-1], End):
            self.ended.set()

    @property
    def text(self):
        """The committed text."""
        commits = [event for event in self.events if isinstance(event, Commit)]
        return "".join(token.text for event in commits for token in event.tokens)


def direct(function):
    """Run *function* in the thread that steps."""
    function()


@pytest.fixture
def clock():
    """Return a clock that stands still."""
    return Clock()


@pytest.fixture
def manual(clock):
    """Return a scheduler without threads."""
    with Scheduler(workers=0, clock=clock) as scheduler:
        yield scheduler


@pytest.fixture
def open_session(open_stream):
    """Return a function that opens a session without a gate over coded audio."""

    def open_session(*, fail_at=(), before_call=None, **options):
        return Session(open_stream(fail_at, before_call), encoding="f32le", **options)

    return open_session


@pytest.fixture
def text(words):
    """Return the text of `speech`."""
    return "".join(word.text for word in words).strip()


def run(scheduler):
    """Make every step that there is; return their number."""
    return sum(1 for _ in iter(scheduler.step, False))


def test_the_session_whose_audio_came_first_is_stepped_first(manual, clock, open_session, speech):
    """Deadlines decide, not the order of attaching."""
    sessions = [open_session() for _ in range(3)]
    attachments = [manual.attach(session, Consumer(), call=direct) for session in sessions]
    for index in (2, 0, 1):
        clock.now += 1.0
        sessions[index].receive(speech[:8000])
        attachments[index].notify()
    order = []
    while manual.step():
        order += [i for i in range(3) if not sessions[i].has_work and i not in order]

    assert [2, 0, 1] == order


def test_a_recording_that_is_sent_at_once_takes_no_time_from_a_live_session(
    manual, clock, open_session, speech
):
    """Its audio is not due yet, and is decoded in the time that is left."""
    bulk, live = open_session(max_backlog_seconds=4000), open_session()
    sender = manual.attach(bulk, Consumer(), call=direct)
    for chunk in partition(speech, 0.5):
        bulk.receive(chunk)
    sender.notify()
    speaker = manual.attach(live, Consumer(), call=direct)
    clock.now += 3.0
    while bulk.backlog_seconds > 4.0:
        manual.step()
    live.receive(speech[:8000])
    speaker.notify()
    before = bulk.backlog_seconds
    while live.has_work:
        manual.step()

    assert before == bulk.backlog_seconds > 0
    run(manual)
    assert 0 == bulk.backlog_seconds


@pytest.mark.parametrize("same_thread", [False, True], ids=["any thread", "same thread"])
def test_sessions_on_threads_emit_what_they_emit_alone(open_session, speech, text, same_thread):
    """Twelve sessions on three threads: each has all of its events, in order, until its End."""
    steppers = [set() for _ in range(12)]
    sessions = [
        open_session(before_call=lambda names=names: names.add(threading.get_ident()))
        for names in steppers
    ]
    consumers = [Consumer() for _ in sessions]
    with Scheduler(workers=3, same_thread=same_thread) as scheduler:
        attachments = [scheduler.attach(*pair) for pair in zip(sessions, consumers, strict=True)]
        for chunk in partition(speech, 0.7):
            for session, attachment in zip(sessions, attachments, strict=True):
                session.receive(chunk)
                attachment.notify()
        for session, attachment in zip(sessions, attachments, strict=True):
            session.end_audio()
            attachment.notify()

        assert all(consumer.ended.wait(WAIT) for consumer in consumers)
    for consumer in consumers:
        assert text == consumer.text
        assert [End] == [type(event) for event in consumer.events if isinstance(event, End)]
    if same_thread:
        assert all(1 == len(names) for names in steppers)
        assert 3 == len(set.union(*steppers))


def test_a_session_whose_step_raises_ends_alone(manual, open_session, speech, text):
    """A mistake in a part of a session is its final Failure; the End follows."""
    broken, sound = open_session(), open_session()
    consumers = Consumer(), Consumer()
    for session, consumer in zip((broken, sound), consumers, strict=True):
        session.receive(speech)
        session.end_audio()
        manual.attach(session, consumer, call=direct)

    def fail(*_, **__):
        raise ZeroDivisionError("a mistake in a diarizer")

    broken._worker._annotations.events = fail
    run(manual)

    *before, failure, end = consumers[0].events
    assert text.startswith(consumers[0].text)
    assert any(isinstance(event, Commit) for event in before)  # of the step that raised
    assert isinstance(failure, Failure)
    assert failure.is_final
    assert isinstance(failure.error, BackendError)
    assert "ZeroDivisionError: a mistake in a diarizer" in str(failure.error)
    assert isinstance(end, End)
    assert text == consumers[1].text
    assert 0 == len(manual)


def test_a_callback_that_raises_detaches_only_its_session(manual, open_session, speech, text):
    """The error is logged, and the other session goes on to its End."""
    consumer = Consumer()

    def fail(_events):
        raise ZeroDivisionError

    for on_events in (fail, consumer):
        session = open_session()
        session.receive(speech)
        session.end_audio()
        manual.attach(session, on_events, call=direct)
    run(manual)

    assert text == consumer.text
    assert 0 == len(manual)


def test_a_callback_that_never_returns_holds_up_no_other_session(open_session, speech, text):
    """It has a thread of its own, and the one thread that steps goes on."""
    release, consumer = threading.Event(), Consumer()
    with Scheduler(workers=1) as scheduler:
        for on_events in (lambda _: release.wait(WAIT), consumer):
            session = open_session()
            session.receive(speech)
            session.end_audio()
            scheduler.attach(session, on_events)

        assert consumer.ended.wait(WAIT)
        release.set()
    assert text == consumer.text


def test_a_client_that_never_reads_stops_its_own_session_and_loses_nothing(
    clock, open_session, speech, text
):
    """Its events are bounded, then its audio is; once it reads, everything comes."""
    with Scheduler(workers=0, clock=clock, max_events=4) as scheduler:
        session = open_session(max_backlog_seconds=2.0)
        pending, consumer = [], Consumer()
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
    clock, open_session, speech
):
    """Otherwise a client that never reads would close the door to others."""
    with Scheduler(workers=0, clock=clock, max_events=1) as scheduler:
        session, pending = open_session(), []
        session.receive(speech)
        scheduler.attach(session, Consumer(), call=pending.append)
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


def test_detach_waits_for_the_step_and_nothing_comes_after_it(open_session, speech):
    """So the processor can be closed after a disconnect in the middle of a step."""
    running, release = threading.Event(), threading.Event()

    def hold():
        running.set()
        release.wait(WAIT)

    session, consumer = open_session(before_call=hold), Consumer()
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


def test_a_callback_may_detach_its_own_session(manual, open_session, speech):
    """It does not wait for itself."""
    session, received = open_session(), []
    session.receive(speech)
    attachment = manual.attach(
        session, lambda events: (received.append(events), attachment.detach()), call=direct
    )
    run(manual)

    assert 1 == len(received)
    assert 0 == len(manual)


def test_a_full_scheduler_refuses_another_session(open_session):
    """At the configured maximum; after a session left there is room."""
    with Scheduler(workers=0, max_sessions=1) as scheduler:
        attachment = scheduler.attach(open_session())

        with pytest.raises(SessionOverloaded, match="1 sessions run, the limit is 1"):
            scheduler.admit()
        with pytest.raises(SessionOverloaded):
            scheduler.attach(open_session())
        attachment.detach()
        scheduler.admit()


def test_a_scheduler_whose_steps_end_late_refuses_another_session(
    manual, clock, open_session, speech
):
    """The capacity is measured; when the steps end in time again, there is room again."""
    session = open_session()
    attachment = manual.attach(session, Consumer(), call=direct)

    def feed(*, step_seconds):
        for chunk in partition(speech, 0.2):
            session.receive(chunk)
            attachment.notify()
            clock.now += step_seconds
            run(manual)

    feed(step_seconds=0.7)
    assert manual.lateness == pytest.approx(0.2)
    with pytest.raises(SessionOverloaded, match=r"end 0.20 s after their deadline"):
        manual.admit()
    clock.now += 11.0
    feed(step_seconds=0.2)
    manual.admit()
    assert manual.lateness == pytest.approx(-0.3)


def test_the_events_of_a_session_are_read_on_an_event_loop(open_session, speech, text):
    """Two sessions on one thread; the loop is not blocked and each reader gets its End."""

    async def listen(scheduler):
        session = open_session()
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
        consumer = Consumer()
        consumer(events)
        assert text == consumer.text
        assert consumer.ended.is_set()


def test_a_callback_can_run_on_an_event_loop(open_session, speech, text):
    """Where the program wants it: the loop calls it, no other thread."""

    async def main():
        ended, received = asyncio.Event(), Consumer()

        def on_events(events):
            received(events)
            if received.ended.is_set():
                ended.set()

        session = open_session()
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


def test_a_reader_of_a_detached_session_ends(open_session):
    """A server that detaches a session in one task ends the reader in another."""

    async def main():
        with Scheduler(workers=1) as scheduler:
            attachment = scheduler.attach(open_session())
            events = attachment.events()
            waiting = asyncio.ensure_future(anext(events, None))
            await asyncio.sleep(0)
            await asyncio.to_thread(attachment.detach)
            return await asyncio.wait_for(waiting, WAIT)

    assert asyncio.run(main()) is None


def test_closing_ends_the_threads_and_refuses_sessions(open_session, speech):
    """Threads return to where they were."""
    before = set(threading.enumerate())
    scheduler, consumer = Scheduler(workers=2), Consumer()
    session = open_session()
    session.receive(speech)
    session.end_audio()
    scheduler.attach(session, consumer)
    assert consumer.ended.wait(WAIT)
    scheduler.attach(open_session())
    scheduler.close()
    scheduler.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT)

    assert before == set(threading.enumerate())
    with pytest.raises(StreamClosed, match="the scheduler is closed"):
        scheduler.admit()


def test_negative_numbers_are_refused():
    """One line names what came."""
    with pytest.raises(OptionError, match="workers=-1"):
        Scheduler(workers=-1)
