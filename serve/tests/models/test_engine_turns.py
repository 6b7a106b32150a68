"""Sessions and recordings share one engine, whose declaration holds for both together."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
import threading

import attrs
import numpy as np
import pytest

from wlk_serve.models.card import ModelCard
from wlk_serve.models.engine_turns import EngineTurns
from wlk_serve.models.service import Service
from wlk_serve.models.stream import StreamSettings
from wlk_serve.transcriptions.protocol import TranscriptionRequest

WAIT = 60.0  # seconds after which a test that waits for a thread has failed
OTHER_SECONDS = 0.2  # in which a call that may not overlap would begin


@contextmanager
def waiting(turns, kind, order):
    """Let a thread wait for a turn of a *kind* and append that to *order* when it has it."""

    def run():
        with getattr(turns, kind):
            order.append(kind)

    before = turns.waiting
    thread = threading.Thread(target=run)
    thread.start()
    while turns.waiting == before:
        threading.Event().wait(0.001)
    yield
    thread.join(WAIT)
    assert not thread.is_alive()


def test_a_session_comes_before_recordings_that_have_waited_longer():
    """Their audio is due; that of a recording never is."""
    turns = EngineTurns(1)
    order = []
    turns.recordings.acquire()
    with waiting(turns, "recordings", order), waiting(turns, "sessions", order):
        turns.recordings.release()

    assert ["sessions", "recordings"] == order


def test_as_many_threads_have_a_turn_as_the_engine_declares():
    """One more waits, and a turn that is given back is its turn."""
    turns = EngineTurns(2)
    order = []
    turns.sessions.acquire()
    turns.recordings.acquire()
    with waiting(turns, "sessions", order):
        assert [] == order
        turns.sessions.release()

    assert ["sessions"] == order


@attrs.define(eq=False)
class Calls:
    """Counts threads in engine calls; each call waits a moment for another thread to come."""

    most: int = 0
    made: int = 0
    _threads: list = attrs.field(factory=list)  # a call that makes another is in it twice
    _changed: threading.Condition = attrs.field(factory=threading.Condition)

    @contextmanager
    def counted(self):
        """Count a call."""
        thread = threading.get_ident()
        with self._changed:
            self._threads.append(thread)
            self.made += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(set(self._threads)) > 1, OTHER_SECONDS)
            self.most = max(self.most, len(set(self._threads)))
        try:
            yield
        finally:
            with self._changed:
                self._threads.remove(thread)


class CountedBackend:
    """A backend whose engine calls are counted."""

    def __init__(self, backend, calls):
        self.backend = backend
        self.calls = calls

    def __getattr__(self, name):
        return getattr(self.backend, name)

    def create_processor(self, **options):
        """Return a processor whose calls are counted."""
        processor = self.backend.create_processor(**options)
        for name in ("process_iter", "start_silence", "finish"):
            setattr(processor, name, self._counted(getattr(processor, name)))
        return processor

    def _counted(self, call):
        def counted(*arguments, **options):
            with self.calls.counted():
                return call(*arguments, **options)

        return counted


@pytest.mark.slow
def test_calls_of_recordings_and_of_sessions_do_not_overlap(digits):
    """An engine that declares one call at a time gets one, from either kind."""
    pytest.importorskip("faster_whisper")
    from wlk_conformance.testing.digits import clip_path  # noqa: PLC0415 -- the other tests need no audio

    backend, spec = digits
    calls = Calls()
    spec = attrs.evolve(spec, max_concurrent_calls=1)

    async def record(service):
        request = TranscriptionRequest(task="transcribe", language="en")
        with clip_path("demo").open("rb") as file:
            results = service.recognize(file, request, lambda _seconds: None)
            assert [result async for result in results]

    async def speak(service):
        ended = asyncio.Event()
        config = StreamSettings(
            encoding="s16le", rate=16_000, language="en", prompt=None, gate=None
        )
        stream = await service.open_stream(
            attrs.evolve(config, leaves_out_pauses=False),
            lambda stream, _events: ended.set() if stream.session.is_over else None,
        )
        stream.receive(np.zeros(32_000, dtype="<i2").tobytes())
        stream.end_audio()
        await ended.wait()
        stream.close()

    async def run():
        card = ModelCard.of(spec, "digits", "en")
        with Service(CountedBackend(backend, calls), card) as service:
            async with asyncio.timeout(WAIT):
                await asyncio.gather(record(service), speak(service))

    asyncio.run(run())

    assert 1 == calls.most
    assert calls.made >= 2
