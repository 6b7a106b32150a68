"""Sessions over coded audio, a scheduler without threads and a consumer of events."""

from __future__ import annotations

import threading

import attrs
import pytest

from wlk_conformance import EngineFaults
from wlk_conformance.scripted import DIGIT_WORDS, ScriptedBackend
from wlk_conformance.testing.coded_audio import CodedToken, encode, script_words
from wlk_core.session import Commit, End, Session
from wlk_serve.scheduler import Scheduler

SCRIPT = [CodedToken(1 + i % 10, 2 + 6 * i, 4) for i in range(20)]


@pytest.fixture
def open_stream():
    """Return a function that opens a stream, see EngineFaults for its arguments."""

    def open_stream(fail_at=(), before_call=None):
        backend = ScriptedBackend(fail_before=fail_at)
        EngineFaults.of(backend.engine_calls).before_call = before_call
        return backend.create_processor()

    return open_stream


@pytest.fixture
def speech():
    """Return ten seconds of coded audio, float32[n]."""
    return encode(SCRIPT, cells=126)


@pytest.fixture
def words():
    """Return the words of `speech` with their times."""
    return script_words(SCRIPT, DIGIT_WORDS)


@pytest.fixture
def open_ungated(open_stream):
    """Return a function that opens a session without a gate over coded audio."""

    def open_ungated(*, fail_at=(), before_call=None, **options):
        return Session(open_stream(fail_at, before_call), encoding="f32le", **options)

    return open_ungated


@pytest.fixture
def text(words):
    """Return the text of `speech`."""
    return "".join(word.text for word in words).strip()


@attrs.define(eq=False)
class Consumer:
    """Collects the events of a session; `ended` is set by the End."""

    events: list = attrs.field(factory=list)
    ended: threading.Event = attrs.field(factory=threading.Event)

    def __call__(self, events):
        """Take events."""
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
