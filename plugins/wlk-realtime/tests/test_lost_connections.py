"""A lost or damaged connection neither loses nor repeats a word."""

from __future__ import annotations

from faulty_proxy import FaultyProxy
import numpy as np
import pytest

from wlk_conformance.testing import CodedToken, encode, partition
from wlk_core import load_backend
from wlk_core.errors import BackendError

pytestmark = pytest.mark.slow
RETRIES = 3


def talk(words, seed):
    """Return coded audio of *words* words with short gaps, none of which is a silence."""
    rng = np.random.default_rng(seed)
    cell, tokens = 2, []
    for _ in range(words):
        tokens.append(CodedToken(int(rng.integers(1, 11)), cell, 3))
        cell += 3 + int(rng.integers(1, 8))
    return encode(tokens, cells=cell + 4)


def retried(call):
    """Repeat *call* until it succeeds; return its emission and the number of failures."""
    for failures in range(RETRIES + 1):
        try:
            return call(), failures
        except BackendError as error:
            assert error.retryable, error
    raise AssertionError("the call failed four times")


def transcribe(backend, parts, *, before=lambda number: None):
    """Return the tokens of *parts*, separated by silences of 1 s, and the number of failures."""
    stream = backend.create_processor()
    tokens, failures, number = [], 0, 0

    def make(call):
        nonlocal failures
        emission, failed = retried(call)
        failures += failed
        tokens.extend(emission.committed)

    for audio in parts:
        for chunk in partition(audio, 0.5):
            stream.insert_audio_chunk(chunk)
            before(number)
            number += 1
            while stream.has_backlog:
                make(stream.process_iter)
        make(stream.start_silence)
        stream.end_silence(1.0)
    make(stream.finish)
    stream.close()
    return tokens, failures


@pytest.fixture(scope="module")
def parts():
    """Return utterances of 8, 80 and 8 s: a replay of the long one begins in the middle of it."""
    return [talk(12, 1), talk(110, 2), talk(12, 3)]


@pytest.fixture(scope="module")
def expected(scripted_server, parts):
    """Return the tokens of an undisturbed stream."""
    with load_backend("realtime", scripted_server.url) as backend:
        tokens, failures = transcribe(backend, parts)
    assert failures == 0
    assert len(tokens) == 134
    return tokens


def check_same(expected, tokens):
    """Assert that the words are equal, and their times to a millisecond."""
    assert [token.text for token in tokens] == [token.text for token in expected]
    starts = [token.start for token in expected]
    assert [token.start for token in tokens] == pytest.approx(starts, abs=1e-3)


@pytest.mark.parametrize(
    "faults",
    [
        {1: "cut"},
        {2: "truncate"},
        {9: "cut", 10: "truncate", 11: "duplicate"},
        dict.fromkeys(range(40, 300, 29), "cut"),
        dict.fromkeys(range(25, 300, 41), "truncate"),
        dict.fromkeys(range(12, 300, 17), "duplicate"),
    ],
    ids=[
        "at once", "the configuration", "one after another", "often", "half messages",
        "messages twice",
    ],
)  # fmt: skip
def test_damaged_connections_change_no_word(faults, scripted_server, parts, expected):
    """After a failed call is repeated, the stream continues on its clock."""
    first_fails = 1 in faults or 2 in faults  # during the first connection, which is not retried
    with FaultyProxy(scripted_server.url, faults) as proxy:
        with load_backend("realtime", proxy.url) as backend:
            tokens, failures = transcribe(backend, parts)
        assert proxy.is_spent
        assert proxy.connections > 1

    check_same(expected, tokens)
    assert failures >= first_fails


def test_answers_that_come_too_late_change_no_word(scripted_server, parts, expected):
    """The call times out, and its late answer is not taken for that of another call."""
    with FaultyProxy(scripted_server.url, {9: "delay", 120: "delay"}) as proxy:
        with load_backend("realtime", proxy.url, timeout_seconds=5) as backend:
            tokens, failures = transcribe(backend, parts)
        assert proxy.is_spent

    check_same(expected, tokens)
    assert failures >= 2


@pytest.mark.parametrize("seed", [5])
def test_a_server_that_is_killed_and_started_again_changes_no_word(
    seed, own_server, parts, expected
):
    """It can die at any time, even in the middle of an utterance."""
    chunks = sum(len(list(partition(audio, 0.5))) for audio in parts)
    deaths = set(np.random.default_rng(seed).choice(chunks, size=3, replace=False).tolist())

    def before(number):
        if number in deaths:
            own_server.kill()
            own_server.start()

    with load_backend("realtime", own_server.url) as backend:
        tokens, _ = transcribe(backend, parts, before=before)

    check_same(expected, tokens)
