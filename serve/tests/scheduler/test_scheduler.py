"""Many sessions on one model: order, isolation, back-pressure, admission."""

from __future__ import annotations

import threading
from unittest.mock import Mock

import pytest

from wlk_conformance.testing import partition
from wlk_core import BackendError, StreamClosed
from wlk_live.session import Commit, End, Failure
from wlk_serve.scheduler import DueTimes, Scheduler

WAIT = 120.0  # seconds after which a test that waits for a thread has failed


def run(scheduler):
    """Run all steps; return their number."""
    return sum(1 for _ in iter(scheduler.step, False))


def test_the_session_whose_audio_came_first_is_stepped_first(
    new_consumer, manual, clock, open_ungated, speech
):
    """Deadlines decide, not the order in which sessions were attached."""
    sessions = [open_ungated() for _ in range(3)]
    attachments = [manual.attach(session, new_consumer()) for session in sessions]
    for index in (2, 0, 1):
        clock.now += 1.0
        sessions[index].receive(speech[:8000])
        attachments[index].notify()
    order = []
    while manual.step():
        order += [i for i in range(3) if not sessions[i].has_work and i not in order]

    assert order == [2, 0, 1]


@pytest.mark.parametrize("end", ["commit", "end_audio"])
def test_an_utterance_that_is_over_comes_before_the_audio_of_the_last_tick(
    manual, clock, open_ungated, speech, end
):
    """It counts as a tick older than it is; audio that is older still is decoded first."""
    names = ["old", "over", "new"]
    sessions = [open_ungated() for _ in names]
    attachments = [manual.attach(session, print) for session in sessions]
    for index, seconds in ((0, 0.4), (2, 0.2), (1, 0.1)):
        sessions[index].receive(speech[:8000])
        attachments[index].notify()
        clock.now += seconds
    getattr(sessions[1], end)()
    attachments[1].notify()
    order = []
    while manual.step():
        order += [i for i in range(3) if not sessions[i].has_work and i not in order]

    assert [names[i] for i in order] == ["old", "over", "new"]


def test_a_recording_that_is_sent_at_once_takes_no_time_from_a_live_session(
    new_consumer, manual, clock, open_ungated, speech
):
    """The recording's audio is not due yet, and is decoded in the remaining time."""
    bulk, live = open_ungated(max_backlog_seconds=4000), open_ungated()
    sender = manual.attach(bulk, new_consumer())
    for chunk in partition(speech, 0.5):
        bulk.receive(chunk)
    sender.notify()
    speaker = manual.attach(live, new_consumer())
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
    assert bulk.backlog_seconds == 0


@pytest.mark.parametrize("same_thread", [False, True], ids=["any thread", "same thread"])
def test_sessions_on_threads_emit_what_they_emit_alone(
    new_consumer, open_ungated, speech, text, same_thread
):
    """Each of twelve sessions on three threads emits all of its events, in order, until its End."""
    steppers = [set() for _ in range(12)]
    sessions = [
        open_ungated(before_call=lambda names=names: names.add(threading.get_ident()))
        for names in steppers
    ]
    consumers = [new_consumer() for _ in sessions]
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
        assert consumer.text == text
        assert [type(event) for event in consumer.events if isinstance(event, End)] == [End]
    if same_thread:
        assert all(len(names) == 1 for names in steppers)
        assert len(set.union(*steppers)) == 3


@pytest.mark.parametrize("kind", [ZeroDivisionError, BaseException, SystemExit])
def test_a_session_whose_step_raises_ends_alone(
    *, new_consumer, manual, open_ungated, speech, text, kind
):
    """An error in a part of a session, of any type, becomes its final Failure; the End follows."""
    broken, sound = open_ungated(), open_ungated()
    consumers = new_consumer(), new_consumer()
    for session, consumer in zip((broken, sound), consumers, strict=True):
        session.receive(speech)
        session.end_audio()
        manual.attach(session, consumer)

    def fail(*_, **__):
        raise kind("a mistake in a diarizer")

    broken._worker._annotate = fail
    run(manual)

    *before, failure, end = consumers[0].events
    assert text.startswith(consumers[0].text)
    assert any(isinstance(event, Commit) for event in before)  # from the step that raised
    assert isinstance(failure, Failure)
    assert failure.is_final
    assert isinstance(failure.error, BackendError)
    assert f"{kind.__name__}: a mistake in a diarizer" in str(failure.error)
    assert isinstance(end, End)
    assert consumers[1].text == text
    assert len(manual) == 0


def test_a_step_is_measured_while_it_runs_and_when_it_has_ended(clock, open_ungated, speech):
    """So a step that never returns is noticed, and the process can be replaced."""
    session, lasted, reported = open_ungated(), [], []
    session.receive(speech)

    def hang():
        clock.now += 1000
        lasted.append(scheduler.longest_step(is_background=False))
        return []

    session.step = hang
    with Scheduler(workers=0, clock=clock, on_step=reported.append) as scheduler:
        scheduler.attach(session, print)
        scheduler.step()

        assert lasted == [1000]
        assert reported == [1000]
        assert scheduler.longest_step(is_background=False) == 0


def test_the_lateness_of_the_last_ten_seconds_is_measured(
    new_consumer, manual, clock, open_ungated, speech
):
    """Lateness becomes negative again once steps end in time again."""
    session = open_ungated()
    attachment = manual.attach(session, new_consumer())

    def feed(*, step_seconds):
        for chunk in partition(speech, 0.2):
            session.receive(chunk)
            attachment.notify()
            clock.now += step_seconds
            run(manual)

    before = manual.lateness
    feed(step_seconds=0.7)
    assert before == 0  # too few steps for a percentile
    assert manual.lateness == pytest.approx(0.2)
    clock.now += 11.0
    feed(step_seconds=0.2)
    assert manual.lateness == pytest.approx(-0.3)


def test_closing_ends_the_threads_and_refuses_sessions(new_consumer, open_ungated, speech):
    """After closing, no thread of the scheduler is left."""
    before = set(threading.enumerate())
    scheduler, consumer = Scheduler(workers=2), new_consumer()
    session = open_ungated()
    session.receive(speech)
    session.end_audio()
    scheduler.attach(session, consumer)
    assert consumer.ended.wait(WAIT)
    scheduler.attach(open_ungated(), consumer)
    scheduler.close()
    scheduler.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(WAIT)

    assert set(threading.enumerate()) == before
    with pytest.raises(StreamClosed, match="the scheduler is closed"):
        scheduler.attach(open_ungated(), consumer)


def test_a_background_session_is_stepped_while_no_other_one_waits(
    *, new_consumer, manual, clock, open_ungated, speech, text
):
    """Uploaded recordings share the time that live sessions leave."""
    background, live = [open_ungated(), open_ungated()], open_ungated()
    consumers = [new_consumer() for _ in background]
    for session, consumer in zip(background, consumers, strict=True):
        session.receive(speech)
        session.end_audio()
        manual.attach(session, consumer, is_background=True)
    attachment = manual.attach(live, new_consumer())
    before = [manual.step(), manual.step()]
    left = [session.backlog_seconds for session in background]
    clock.now += 1000.0
    live.receive(speech)
    attachment.notify()
    while live.has_work:
        manual.step()

    assert before == [True, True]
    assert left == [session.backlog_seconds for session in background]
    assert len(manual) == 1
    run(manual)
    assert [consumer.text for consumer in consumers] == [text, text]
    assert manual.lateness <= 0


def test_an_interrupted_program_can_close_its_scheduler(manual, open_ungated, speech):
    """Ctrl-C in a step or a callback of a program without threads leaves no step in progress."""
    session, on_events = open_ungated(), Mock(side_effect=KeyboardInterrupt)
    session.receive(speech)
    manual.attach(session, on_events)

    with pytest.raises(KeyboardInterrupt):
        run(manual)

    manual.close()
    assert len(manual) == 0


def test_a_callback_that_raises_detaches_only_its_session(
    new_consumer, manual, open_ungated, speech, text
):
    """The error is logged, and the other session continues to its End."""
    consumer = new_consumer()

    def fail(_events):
        raise ZeroDivisionError

    for on_events in (fail, consumer):
        session = open_ungated()
        session.receive(speech)
        session.end_audio()
        manual.attach(session, on_events)
    run(manual)

    assert consumer.text == text
    assert len(manual) == 0


def test_every_step_is_announced_even_without_events(manual, open_ungated):
    """A session that takes audio without words makes room for more, which somebody may await."""
    session, on_events, after_step = open_ungated(), Mock(), Mock()
    for _ in range(3):
        session.receive(bytes(4 * 160))  # less than a tick
    manual.attach(session, on_events, after_step=after_step)
    steps = run(manual)

    assert on_events.call_count == 0
    assert after_step.call_count == steps > 0


def test_a_call_that_failed_is_repeated_after_a_pause_in_which_others_are_stepped(
    *, new_consumer, manual, clock, open_ungated, speech, text
):
    """Only the session of the failed call waits, although it is told of more audio."""
    failing, sound = open_ungated(fail_at={1, 2}), open_ungated()
    consumers = new_consumer(), new_consumer()
    failing.receive(speech)
    failing.end_audio()
    attachment = manual.attach(failing, consumers[0])
    run(manual)
    first = len(consumers[0].events)
    sound.receive(speech)
    sound.end_audio()
    manual.attach(sound, consumers[1])
    attachment.notify()
    run(manual)

    assert first == len(consumers[0].events) == 1
    assert consumers[1].text == text
    clock.now += 0.11
    run(manual)
    assert len(consumers[0].events) == 2
    clock.now += 0.11
    assert not manual.step()
    clock.now += 0.11
    run(manual)
    assert consumers[0].text == text
    assert len(manual) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_the_threads_repeat_a_failed_call_although_nothing_else_wakes_them(
    new_consumer, open_ungated, speech, text, workers
):
    """They wait for work no longer than until the retry is due."""
    session, consumer = open_ungated(fail_at={1, 2, 3}), new_consumer()
    session.receive(speech)
    session.end_audio()
    with Scheduler(workers=workers) as scheduler:
        scheduler.attach(session, consumer)
        assert consumer.ended.wait(WAIT)

    assert consumer.text == text


def test_a_session_is_detached_while_its_retry_waits(
    new_consumer, manual, clock, open_ungated, speech
):
    """No step follows."""
    session, consumer = open_ungated(fail_at={1}), new_consumer()
    session.receive(speech)
    attachment = manual.attach(session, consumer)
    run(manual)
    attachment.detach()
    clock.now += 1.0

    assert not manual.step()
    assert len(consumer.events) == 1


def test_detach_waits_for_the_step_and_nothing_comes_after_it(new_consumer, open_ungated, speech):
    """So the processor can be closed even if a client disconnects in the middle of a step."""
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
        session._worker._processor.close()
    assert not consumer.events


@pytest.mark.parametrize(
    ("received", "waiting", "expected"),
    [
        ([(second, 1.0) for second in range(5)], 5.0, 0.0),
        ([(second, 1.0) for second in range(5)], 3.0, 2.0),  # audio that was decoded does not count
        ([(100.0, 3600.0)], 3598.0, 100.0),
        ([(100.0, 3600.0)], 1800.0, 1898.0),
        ([(0.0, 1.0), (3600.0, 3600.0)], 3500.0, 3698.0),
        ([(1.0, 0.5), (7.0, 0.0)], 0.0, 7.0),
    ],
    ids=["oldest", "taken", "burst", "sent at once", "after a stall", "command"],
)
def test_audio_is_due_when_it_came_or_would_have_been_spoken(received, waiting, expected):
    """A burst of two seconds is due at once, even after an hour without audio."""
    due = DueTimes(burst_seconds=2.0)
    for now, seconds in received:
        due.receive(now, seconds)

    assert due.due(waiting) == expected


def test_the_memory_of_arrivals_does_not_grow_with_the_number_of_chunks():
    """Ten thousand chunks of one sample that come together share one arrival time."""
    due = DueTimes(burst_seconds=2.0)
    for i in range(10_000):
        due.receive(i * 1e-6, 1 / 16_000)

    assert len(due._arrivals) == 1
