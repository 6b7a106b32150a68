from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core.plugins import SAMPLE_RATE, Word
from wlk_realtime.engine.remote_stream import RemoteStream
from wlk_realtime.engine.requests import Decoded, Request, ServerProgress


class WordEverySecond:
    """A server that emits a word per second of audio, numbered by the value of the first sample."""

    def __init__(self):
        self.audio = np.empty(0, np.float32)
        self.decoded = 0
        self.is_answered = True
        self.flushes = 0

    def send(self, audio, *, is_last):
        """Append audio."""
        self.audio = np.concatenate((self.audio, audio))
        self.flushes += is_last
        return ["message"]

    def take(self):
        """Return the words of the complete seconds."""
        words = []
        while (self.decoded + 1) * SAMPLE_RATE <= len(self.audio):
            start = float(self.decoded)
            number = int(self.audio[self.decoded * SAMPLE_RATE])
            text = f" w{number}" if self.decoded else f"w{number}"
            words.append(Word(start + 0.2, start + 0.8, text))
            self.decoded += 1
        return Decoded(words=tuple(words), processed_samples=self.decoded * SAMPLE_RATE)


def numbered(start, end):
    """Return audio whose second n has the value n."""
    return (np.arange(start, end) // SAMPLE_RATE).astype(np.float32)


def request(seconds, **fields):
    """Return a request for whole seconds."""
    values = {
        "utterance": 0,
        "first_sample": 0,
        "is_last": False,
        "progress": ServerProgress(),
        "audio": numbered,
    }
    return Request(end_sample=seconds * SAMPLE_RATE, **values | fields)


def ask(remote, query):
    """Make a request and return its answer."""
    remote.send(query)
    return remote.answer(query)


def texts(answer):
    """Return the text of each word."""
    return [word.text for word in answer.words]


def test_a_request_that_is_made_again_has_the_same_answer():
    """Its audio is sent once, and its words are returned until the stream has received them."""
    server = WordEverySecond()
    remote = RemoteStream(server, number=1)
    first = ask(remote, request(2))
    again = ask(remote, request(2))
    more = ask(remote, request(3))
    rest = ask(remote, request(4, progress=more.progress))

    assert texts(first) == ["w0", " w1"]
    assert texts(again) == ["w0", " w1"]
    assert texts(more) == ["w0", " w1", " w2"]
    assert texts(rest) == [" w3"]
    assert len(server.audio) == 4 * SAMPLE_RATE


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        (request(2, is_last=True), True),
        (request(2), False),
        (request(3, is_last=True), False),
        (request(1, utterance=1), True),
    ],
    ids=["the same", "without the flush", "with more audio", "the next utterance"],
)
def test_an_utterance_that_was_flushed_takes_no_more_audio(query, fits):
    """If the answer to a flush is lost, audio added since then needs a new connection."""
    remote = RemoteStream(WordEverySecond(), number=1)
    remote.send(request(2, is_last=True))

    assert remote.fits(query) == fits


@given(
    lost_at=st.integers(1, 20),
    first=st.integers(0, 9).map(lambda number: 2 * number),
    total=st.integers(20, 24),
)
def test_another_connection_goes_on_without_a_word_lost_or_doubled(lost_at, first, total):
    """It works whatever audio is still kept, and wherever the first connection was lost."""
    first = min(first, lost_at - lost_at % 2)
    before = ask(RemoteStream(WordEverySecond(), number=1), request(lost_at))
    remote = RemoteStream(WordEverySecond(), number=2)
    query = request(
        total,
        first_sample=first * SAMPLE_RATE,
        progress=before.progress,
        tail=before.words[-1:],
    )

    after = ask(remote, query)

    expected = ask(RemoteStream(WordEverySecond(), number=1), request(total)).words
    words = (*before.words, *after.words)
    assert [word.text for word in words] == [word.text for word in expected]
    assert [word.start for word in words] == pytest.approx([word.start for word in expected])


def test_a_word_of_no_length_is_not_doubled():
    """A word without duration that ends the words of the stream is not committed again."""

    class Instant(WordEverySecond):
        def take(self):
            decoded = super().take()
            words = tuple(attrs.evolve(word, end=word.start) for word in decoded.words)
            return attrs.evolve(decoded, words=words)

    before = ask(RemoteStream(Instant(), number=1), request(3))
    tail = before.words[-1:]
    after = ask(RemoteStream(Instant(), number=2), request(4, progress=before.progress, tail=tail))

    assert texts(after) == [" w3"]
