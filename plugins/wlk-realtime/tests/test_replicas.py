"""A replica that dies takes no word with it: its clients go on at another one."""

from __future__ import annotations

import json

import pytest
from replica_proxy import ReplicaProxy
from server_process import ServerProcess
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from wlk_conformance.testing import CodedToken, encode, partition
from wlk_core import load_backend
from wlk_core.errors import BackendError

pytestmark = pytest.mark.slow

RETRIES = 3
WORDS = 40
PATIENCE = 120  # seconds, for what takes one on a machine that is idle


@pytest.fixture
def replicas():
    """Return two servers of the scripted backend that this test may kill."""
    with ServerProcess("scripted") as first, ServerProcess("scripted") as second:
        yield first, second


def audio():
    """Return coded audio of one utterance of 26 s."""
    tokens = [CodedToken(1 + (7 * index) % 10, 4 + 8 * index, 4) for index in range(WORDS)]
    return encode(tokens, cells=4 + 8 * WORDS + 8)


def transcribe(backend, *, before=lambda _number: None):
    """Return the words of `audio` with their times; calls that fail are made again."""
    stream = backend.create_processor()
    tokens = []

    def make(call):
        for attempt in range(RETRIES + 1):
            try:
                tokens.extend(call().committed)
            except BackendError as error:
                assert error.retryable, error
                assert attempt < RETRIES
            else:
                return

    for number, chunk in enumerate(partition(audio(), 0.5)):
        stream.insert_audio_chunk(chunk)
        before(number)
        while stream.has_backlog:
            make(stream.process_iter)
    make(stream.finish)
    stream.close()
    return [(token.text, round(token.start, 3), round(token.end, 3)) for token in tokens]


@pytest.mark.parametrize("death", [0, 25, 50], ids=["at once", "in the middle", "near the end"])
def test_a_stream_goes_on_at_another_replica(replicas, death):
    """Words and times are those of the same backend without a server; the clock goes on."""
    with load_backend("scripted", "digits") as alone:
        expected = transcribe(alone)
    first, second = replicas

    def before(number):
        if number == death:
            first.kill()

    with (
        ReplicaProxy([first.port, second.port]) as proxy,
        load_backend("realtime", proxy.url) as backend,
    ):
        words = transcribe(backend, before=before)
        used = [port for port, count in proxy.counts.items() if count]

    assert WORDS == len(expected)
    assert expected == words
    assert [first.port, second.port] == used


def test_a_token_of_a_dead_replica_is_refused_and_a_new_session_opens(replicas):
    """The caption page then opens a session that begins after its last final word."""
    first, second = replicas
    with ReplicaProxy([first.port, second.port]) as proxy:
        with connect(f"{proxy.url}?wlk_resume=1", open_timeout=PATIENCE) as session:
            created = json.loads(session.recv(timeout=PATIENCE))
            token = created["session"]["wlk"]["resume"]["token"]
            first.kill()
            with pytest.raises(ConnectionClosed):
                session.recv(timeout=PATIENCE)
        token_protocol = [f"wlk-resume.{token}"]
        with connect(proxy.url, open_timeout=PATIENCE, subprotocols=token_protocol) as resumed:
            error = json.loads(resumed.recv(timeout=PATIENCE))
            with pytest.raises(ConnectionClosed) as closed:
                resumed.recv(timeout=PATIENCE)
        with connect(f"{proxy.url}?wlk_resume=1", open_timeout=PATIENCE) as renewed:
            opened = json.loads(renewed.recv(timeout=PATIENCE))

    assert ("error", "resume_expired") == (error["type"], error["error"]["code"])
    assert 4404 == closed.value.rcvd.code
    assert "session.created" == opened["type"]
    assert token != opened["session"]["wlk"]["resume"]["token"]
