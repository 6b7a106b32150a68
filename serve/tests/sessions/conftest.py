"""Sessions over streams that record their calls."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from wlk_serve.ops.limits import Limits, Usage
from wlk_serve.ops.metrics import Metrics
from wlk_serve.protocols import Opening
from wlk_serve.realtime.config import default_config
from wlk_serve.realtime.protocol import RealtimeProtocol
from wlk_serve.sessions.session import ClientSession


@pytest.fixture
def open_session(card, open_stream):
    """Return a function that opens a Realtime session over streams that record their calls."""

    async def open_at_once(settings, _on_events):
        return open_stream(settings)

    limits = Limits()

    def open_session(
        *,
        open_stream=open_at_once,
        on_over=lambda: None,
        on_closed=lambda: None,
        is_resumable=False,
    ):
        return ClientSession(
            SimpleNamespace(card=card, metrics=Metrics(), open_stream=open_stream),
            Opening(
                make=RealtimeProtocol,
                card=card,
                settings=default_config(card).stream_settings(),
                is_resumable=is_resumable,
            ),
            protocol="realtime",
            key_id="",
            limits=limits,
            usage=Usage(limits),
            on_over=on_over,
            on_closed=on_closed,
        )

    return open_session
