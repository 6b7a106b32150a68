"""Fifty sessions for ten minutes of simulated time, and everything that goes wrong with clients."""

from __future__ import annotations

from functools import partial
import gc
import heapq
import os
from pathlib import Path
import random
import threading
import weakref

import attrs
import numpy as np
import pytest

from wlk_conformance.testing.coded_audio import CodedToken, encode
from wlk_core import AudioFormatError, StreamClosed
from wlk_core.session import Commit, End, Endpoint, Failure, Session, SilenceSpan
from wlk_core.vad import SilenceGate
from wlk_serve.scheduler import Scheduler

SESSIONS = 50
SECONDS = 600.0
RATE = 16_000
STEP_SECONDS = 0.002  # simulated
DISCONNECTS = frozenset(range(0, SESSIONS, 7))  # the sessions whose client leaves
BROKEN = frozenset({3, 31})  # the sessions whose engine fails from some call on


@attrs.frozen(order=True)
class Action:
    """What a client does at a time: a method of this module and its argument."""

    time: float
    name: str
    value: float = 0.0


def talk(rng):
    """Return coded speech in utterances of random words, with pauses of 0.3 to 20 s between."""
    parts, samples = [], 0
    while samples < SECONDS * RATE:
        tokens, cell = [], 0
        for _ in range(rng.randint(3, 40)):
            tokens.append(CodedToken(rng.randint(1, 10), cell, rng.randint(2, 5)))
            cell += rng.randint(6, 9)
        part = encode(tokens, cells=cell + rng.choice((4, 12, 60, 250)))
        parts.append(part)
        samples += len(part)
    return np.concatenate(parts)[: round(SECONDS * RATE)]


def script(rng, *, leaves):
    """Return what a client does: it sends its audio in real time, in chunks of any length."""
    actions, spoken, sent = [], 0.0, rng.uniform(0.0, 20.0)
    start = sent
    end = rng.uniform(30.0, SECONDS - 30.0) if leaves else SECONDS
    while spoken < end:
        seconds = min(rng.choice((0.01, 0.1, 0.5, rng.uniform(0.0, 3.0))), end - spoken)
        spoken += max(seconds, 1 / RATE)
        stall = rng.uniform(1.0, 15.0) if rng.random() < 0.003 else 0.0
        sent = max(sent, start + spoken) + stall
        actions.append(Action(sent, "send", max(seconds, 1 / RATE)))
        mishap = rng.random()
        if mishap < 0.01:
            actions.append(Action(sent, "send_nan"))
        elif mishap < 0.015:
            actions.append(Action(sent, "skip", rng.uniform(0.1, 60.0)))
        elif mishap < 0.02:
            actions.append(Action(sent, "commit"))
    actions.append(Action(sent, "leave" if leaves else "end_audio"))
    return actions


class Client:
    """A client of a session: it acts by its script, and keeps what it is sent."""

    def __init__(self, number, session, audio, actions):
        self.number = number
        self.session = session
        self.audio = audio
        self.actions = actions
        self.position = 0
        self.events = []
        self.attachment = None
        self.events_at_leave = None

    def leave(self, _):
        """Disconnect; the server releases the stream."""
        self.attachment.detach()
        self.session._worker._processor.close()
        self.events_at_leave = len(self.events)

    def send(self, seconds):
        """Send the next *seconds* of audio."""
        end = self.position + round(seconds * RATE)
        self.session.receive(self.audio[self.position : end])
        self.position = end

    def send_nan(self, _):
        """Send a chunk that no device could have recorded; nothing may change."""
        with pytest.raises(AudioFormatError):
            self.session.receive(np.full(800, np.nan, dtype=np.float32))

    def skip(self, seconds):
        """Lose the device for a while, as when the machine sleeps."""
        self.session.skip(seconds)

    def commit(self, _):
        """End the utterance."""
        self.session.commit()

    def end_audio(self, _):
        """Send no more."""
        self.session.end_audio()

    def act(self, action):
        """Do as the script demands; a session that has failed takes nothing more."""
        if self.session.is_over and action.name != "leave":
            with pytest.raises(StreamClosed):
                self.session.receive(np.zeros(1, dtype=np.float32))
        else:
            getattr(self, action.name)(action.value)


def outline(events):
    """Return committed tokens, pauses and endpoints, without the time at which they were found."""
    found = []
    for event in events:
        match event:
            case Commit(tokens):
                found += tokens
            case SilenceSpan(silence):
                found.append(silence)
            case Endpoint(time, reason):
                found.append((time, reason))
    return found


def events_alone(session, client):
    """Return the events of a session that does the same without mishaps, each step at once."""
    double, events = Client(client.number, session, client.audio, ()), []
    for action in client.actions:
        if action.name not in {"send_nan", "leave"}:
            double.act(action)
        while session.has_work:
            events += session.step()
    return events


def open_files():
    """Return how many files this process has open, 0 where the system does not report it."""
    folder = Path("/proc/self/fd")
    return len(os.listdir(folder)) if folder.exists() else 0  # noqa: PTH208 -- one less handle


class Chaos:
    """All clients on one scheduler, in simulated time: what happens next is on the agenda."""

    def __init__(self, clock, open_session):
        self.clock = clock
        self.scheduler = Scheduler(workers=0, clock=clock, tick_seconds=1.0)
        self.agenda = []
        self.count = 0
        self.clients = []
        rng = random.Random(20_261_122)  # noqa: S311 -- a simulation
        for number in range(SESSIONS):
            faults = set(rng.sample(range(1, 600), 40))
            faults -= {call + 1 for call in faults}  # so that every call succeeds in the end
            fail_at = range(200, 10_000) if number in BROKEN else faults
            actions = script(rng, leaves=number in DISCONNECTS)
            client = Client(number, open_session(number, fail_at), talk(rng), actions)
            # Every fifth client takes its events late.
            call = self.later if number % 5 == 0 else lambda function: function()
            client.attachment = self.scheduler.attach(
                client.session, client.events.extend, call=call
            )
            for action in actions:
                self.plan(action.time, partial(self.act, client, action))
            self.clients.append(client)

    def plan(self, seconds, function):
        """Let *function* be called in *seconds* from now."""
        self.count += 1
        heapq.heappush(self.agenda, (self.clock.now + seconds, self.count, function))

    def later(self, function):
        """Run a delivery seven seconds late."""
        self.plan(7.0, function)

    def act(self, client, action):
        """Do what the script demands, and notify the scheduler."""
        client.act(action)
        client.attachment.notify()

    def play(self):
        """Work through the agenda; steps take time, and once the machine itself sleeps."""
        sleep = self.clock.now + SECONDS / 2
        while self.agenda:
            time, _, function = heapq.heappop(self.agenda)
            while self.clock.now < time and self.scheduler.step():
                self.clock.now += STEP_SECONDS
            self.clock.now = max(self.clock.now, time)
            if self.clock.now > sleep:
                self.clock.now, sleep = self.clock.now + 30.0, float("inf")
            function()
            while not self.agenda and self.scheduler.step():
                self.clock.now += STEP_SECONDS


def check(client, expected):
    """Compare what a client received with the outline of the solo run."""
    found = outline(client.events)
    if client.number in DISCONNECTS:
        assert client.events_at_leave == len(client.events)
        assert expected[: len(found)] == found
    elif client.number in BROKEN:
        *_, failure, end = client.events
        assert isinstance(failure, Failure)
        assert failure.is_final
        assert isinstance(end, End)
        assert 0 < len(found) < len(expected)
        assert expected[: len(found)] == found
    else:
        assert isinstance(client.events[-1], End)
        assert any(isinstance(event, Failure) for event in client.events)
        assert expected == found


@pytest.mark.slow
def test_survivors_of_chaos_equal_their_solo_runs(open_stream, detector, clock):
    """Words, pauses and endpoints are the same, and everything is released."""

    def open_session(number, fail_at=()):
        gate = SilenceGate(type(detector)()) if number % 2 else None
        return Session(open_stream(fail_at), gate=gate, max_backlog_seconds=900.0)

    threads, files = set(threading.enumerate()), open_files()
    chaos = Chaos(clock, open_session)
    released = [weakref.ref(client.session) for client in chaos.clients]
    released += [weakref.ref(client.session._worker._processor) for client in chaos.clients]
    chaos.play()
    for client in chaos.clients:
        check(client, outline(events_alone(open_session(client.number), client)))

    assert 0 == len(chaos.scheduler)
    del client
    chaos.clients.clear()
    gc.collect()
    assert [None] * len(released) == [reference() for reference in released]
    chaos.scheduler.close()
    assert threads == set(threading.enumerate())
    assert files == open_files()
