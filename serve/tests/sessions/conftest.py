"""Fixtures: sessions over streams that record their calls."""

from __future__ import annotations

import asyncio
import base64
from functools import partial
import json
from types import SimpleNamespace

import attrs
import pytest

from wlk_serve.admission import Limits
from wlk_serve.blocking_work import BlockingWork
from wlk_serve.ops.metrics import Metrics
from wlk_serve.protocols import Opening
from wlk_serve.realtime.config import default_config
from wlk_serve.realtime.protocol import RealtimeProtocol
from wlk_serve.sessions.session import ClientSession

SECOND = base64.b64encode(bytes(48_000)).decode()  # of 16-bit samples at 24 kHz
APPEND = json.dumps({"type": "input_audio_buffer.append", "audio": SECOND, "event_id": "audio-1"})


@attrs.define(eq=False)
class Opener:
    """Opens each stream when the test releases it."""

    make: object
    begun: list = attrs.field(factory=list)  # a future for each opening

    async def open_stream(self, config, _on_events, **_calls):
        """Return the stream, once the test releases it."""
        self.begun.append(asyncio.get_running_loop().create_future())
        await self.begun[-1]
        return self.make(config)


@pytest.fixture
def opener(open_stream):
    """Return an opener for the streams of a session."""
    return Opener(open_stream)


async def turns():
    """Let tasks that are ready run."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def open_session(card, open_stream, monkeypatch):
    """Return a function that opens a Realtime session over streams that record their calls."""
    monkeypatch.setattr("wlk_serve.sessions.session._OPENING_SECONDS", 0)

    async def open_at_once(settings, _on_events, *, after_step):
        stream = open_stream(settings)
        stream.after_step = after_step
        return stream

    def open_session(*, open_stream=open_at_once, opening=None, is_resumable=False, **calls):
        service = SimpleNamespace(card=card, metrics=Metrics(), open_stream=open_stream)
        service.blocking_work = BlockingWork()
        return ClientSession(
            service,
            Opening(
                make=partial(RealtimeProtocol, config=default_config(card)),
                card=card,
                options=default_config(card).stream_options(),
                is_resumable=is_resumable,
                **(opening or {}),
            ),
            protocol="realtime",
            key_id="",
            limits=Limits(),
            **{"on_over": list, "on_closed": list, **calls},  # which does nothing
            occupy=lambda _running: lambda: None,
        )

    return open_session
