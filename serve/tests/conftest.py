"""A model card and streams that record what a protocol does with them."""

from __future__ import annotations

from collections import Counter

import attrs
import pytest

from wlk_core.backend import BackendSpec
from wlk_core.options import Option
from wlk_core.tokens import ASRToken
from wlk_serve.model_card import ModelCard


@attrs.define(eq=False)
class RecordingStream:
    """A stream that keeps the calls it received."""

    config: object
    calls: list = attrs.field(factory=list)

    def receive(self, audio):
        """Record audio."""
        self.calls.append(("receive", len(audio)))

    def commit(self):
        """Record a commit."""
        self.calls.append(("commit",))

    def end_audio(self):
        """Record the end."""
        self.calls.append(("end_audio",))

    def close(self):
        """Record that the stream is dropped."""
        self.calls.append(("close",))


@pytest.fixture
def spec():
    """Return a backend of two languages that takes prompts."""
    return BackendSpec(
        name="toy",
        api=1,
        summary="a toy",
        load="toy:load",
        languages=("en", "fr"),
        capabilities=["language-forcing", "language-detection", "probabilities"],
        options=(Option(name="prompt", type=str, default="", help="text before", scope="stream"),),
    )


@pytest.fixture
def card(spec):
    """Return the card of the model "small"."""
    return ModelCard(name="small", spec=spec)


@pytest.fixture
def streams():
    """Return the list of the streams that were opened."""
    return []


@pytest.fixture
def open_stream(streams):
    """Return a function that opens a recording stream."""

    def open_stream(config):
        streams.append(RecordingStream(config))
        return streams[-1]

    return open_stream


@pytest.fixture
def new_id():
    """Return a function that counts identifiers of each prefix."""
    counts = Counter()

    def new_id(prefix):
        counts[prefix] += 1
        return f"{prefix}_{counts[prefix]}"

    return new_id


@pytest.fixture
def token():
    """Return a function that makes a token."""

    def token(text, start=0.0, end=0.5, **fields):
        return ASRToken(start, end, text, **{"probability": 0.5, **fields})

    return token
