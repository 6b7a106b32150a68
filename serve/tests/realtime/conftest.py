"""Realtime sessions and their protocol over streams that record their calls."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from wlk_core.errors import WLKError
from wlk_serve.ops.limits import Limits, Usage
from wlk_serve.ops.metrics import Metrics
from wlk_serve.realtime.config import default_config
from wlk_serve.realtime.protocol import RealtimeProtocol
from wlk_serve.realtime.session import RealtimeSession


class OpenedProtocol(RealtimeProtocol):
    """A protocol whose streams are opened at once by a function."""

    def __init__(self, card, open_stream, **options):
        super().__init__(card, **options)
        self._open_stream = open_stream

    def receive(self, data):
        """Parse and apply a message."""
        message = self.parse(data)
        config, opened = self.stream_needed(message), None
        if config is not None:
            try:
                opened = self._open_stream(config)
            except WLKError as error:
                opened = error
        return self.apply(message, opened)


@pytest.fixture
def open_realtime(card, open_stream):
    """Return a function that opens a Realtime session over streams that record their calls."""

    async def open_at_once(config, _on_events):
        return open_stream(config)

    limits = Limits()

    def open_realtime(
        *, open_stream=open_at_once, on_over=lambda: None, on_closed=lambda: None, **options
    ):
        return RealtimeSession(
            SimpleNamespace(card=card, metrics=Metrics(), open_stream=open_stream),
            config=default_config(card),
            key_id="",
            limits=limits,
            usage=Usage(limits),
            on_over=on_over,
            on_closed=on_closed,
            **options,
        )

    return open_realtime


@pytest.fixture
def protocol(card, open_stream, new_id):
    """Return the protocol of a session over streams that record their calls."""
    return OpenedProtocol(card, open_stream, new_id=new_id)


@pytest.fixture
def client(protocol):
    """Return a function that sends a message by its type and returns the answers."""

    def client(kind, **fields):
        kind = kind if "." in kind else f"input_audio_buffer.{kind}"
        return protocol.receive(json.dumps({"type": kind, **fields}))

    return client
