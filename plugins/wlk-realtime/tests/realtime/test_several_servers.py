"""Several servers of one backend: streams are divided, and those of a lost one go on."""

from __future__ import annotations

import os
import signal
import sys

import attrs
import pytest
from server_process import ServerProcess

from wlk_conformance.testing import CodedToken, encode
from wlk_core import load_backend
from wlk_core.errors import BackendError
from wlk_realtime.realtime.declaration import Declaration, common_declaration
from wlk_realtime.realtime.server import Server, ranked

AUDIO = encode([CodedToken(1 + i % 10, 2 + 5 * i, 3) for i in range(24)], cells=124)
HALF = len(AUDIO) // 2

FIRST = Declaration(
    has_marks=True,
    backend="whisper",
    capabilities=frozenset({"hypothesis", "word-times", "probabilities"}),
    languages=("en", "de", "fr"),
    max_delay=2.0,
    bounds={"wer": 0.05, "invented_words": 2.0},
    takes_prompt=True,
    recognises_digits=True,
)
SECOND = Declaration(
    has_marks=True,
    backend="mlx-whisper",
    capabilities=frozenset({"hypothesis", "word-times"}),
    languages=("fr", "en"),
    max_delay=3.0,
    bounds={"wer": 0.1},
    recognises_digits=True,
)


def test_a_backend_declares_what_all_of_its_servers_do():
    """The weaker bound, the longer delay, and no capability that one lacks."""
    common = common_declaration([FIRST, SECOND])

    assert common == attrs.evolve(
        SECOND, backend="whisper, mlx-whisper", languages=("en", "fr"), bounds={"wer": 0.1}
    )
    assert FIRST == common_declaration([FIRST])
    assert FIRST.has(common)
    assert not SECOND.has(FIRST)


def test_a_stream_tries_the_server_with_the_fewest_streams_first():
    """And one that was lost a moment ago last."""
    servers = tuple(Server(None) for _ in range(3))
    for server, streams in zip(servers, (2, 0, 1), strict=True):
        server.clients = set(range(streams))
    servers[1].mark_down()

    order = [servers.index(server) for server in ranked(servers)]
    servers[1].mark_up()

    assert [2, 0, 1] == order
    assert servers[1] is ranked(servers)[0]


def begin(backend):
    """Return a stream that has half of the audio, and its words."""
    stream = backend.create_processor()
    stream.insert_audio_chunk(AUDIO[:HALF])
    return stream, [token.text for token in stream.process_iter().committed]


def end(stream, words):
    """Return all words of *stream*, and how many calls failed."""
    failures = 0
    stream.insert_audio_chunk(AUDIO[HALF:])
    while True:
        try:
            words += [token.text for token in stream.finish().committed]
            stream.close()
            return "".join(words), failures
        except BackendError as error:
            assert error.retryable, error
            failures += 1


@pytest.fixture(scope="module")
def expected(scripted_server):
    """Return the words of a stream that nothing disturbs."""
    with load_backend("realtime", scripted_server.url) as backend:
        text, failures = end(*begin(backend))
    assert 0 == failures
    assert 24 == len(text.split())
    return text


@pytest.mark.slow
def test_streams_of_a_server_that_is_gone_go_on_at_the_other_one(
    scripted_server, own_server, expected
):
    """They are divided before, and none has lost or doubled a word after."""
    with load_backend("realtime", f"{own_server.url},{scripted_server.url}") as backend:
        streams = [begin(backend) for _ in range(4)]
        before = [len(server.clients) for server in backend.engine.servers]
        own_server.kill()
        ends = [end(*stream) for stream in streams]
        text, failures = end(*begin(backend))
        after = [len(server.clients) for server in backend.engine.servers]

    assert [2, 2] == before
    assert [expected] * 4 == [each for each, _ in ends]
    assert all(failed <= 1 for _, failed in ends)  # none where the loss was noticed before
    assert (expected, 0) == (text, failures)
    assert [0, 0] == after


@pytest.mark.slow
def test_a_server_that_is_away_at_first_gets_streams_when_it_comes(
    scripted_server, own_server, expected
):
    """What the backend declares is checked with it then."""
    own_server.kill()
    with load_backend("realtime", f"{own_server.url},{scripted_server.url}") as backend:
        first = begin(backend)
        away = [len(server.clients) for server in backend.engine.servers]
        own_server.start()
        for server in backend.engine.servers:
            server.mark_up()  # as after a few seconds
        second = begin(backend)
        divided = [len(server.clients) for server in backend.engine.servers]
        texts = [end(*stream)[0] for stream in (first, second)]

    assert ([0, 1], [1, 1]) == (away, divided)
    assert [expected] * 2 == texts


@pytest.mark.slow
def test_a_server_that_declares_less_is_left_out(scripted_server, own_server, monkeypatch):
    """A stream could not go on there."""
    own_server.kill()
    with load_backend("realtime", f"{own_server.url},{scripted_server.url}") as backend:
        declared = backend.declared()
        more = attrs.evolve(
            backend.engine.declaration, capabilities=declared.capabilities | {"translation"}
        )
        monkeypatch.setattr(backend.engine, "_declaration", more)
        own_server.start()
        for server in backend.engine.servers:
            server.mark_up()
        streams = [begin(backend)[0] for _ in range(2)]
        counts = [len(server.clients) for server in backend.engine.servers]
        for stream in streams:
            stream.close()

    assert [0, 2] == counts


@pytest.mark.slow
def test_no_server_at_all_is_the_error_of_one():
    """The address is in it."""
    with ServerProcess("scripted") as server:
        url = server.url
    with (
        load_backend("realtime", f"{url},{url}#other") as backend,
        pytest.raises(BackendError, match="start it with: wlk-serve") as raised,
    ):
        backend.create_processor()
    assert url in str(raised.value)


@pytest.mark.slow
def test_two_children_divide_the_streams_and_one_that_crashes_comes_back(expected):
    """Its streams go on at the other one, and new ones open at both."""
    both = f"{sys.executable},{sys.executable}"
    with load_backend("realtime", "digits", python=both, backend="scripted") as backend:
        children = [server.source for server in backend.engine.servers]
        streams = [begin(backend) for _ in range(4)]
        before = [len(server.clients) for server in backend.engine.servers]
        first = children[0].endpoint()
        os.kill(children[0].process_id, signal.SIGKILL)
        ends = [end(*stream) for stream in streams]
        with children[0]._changed:
            came_back = children[0]._changed.wait_for(
                lambda: children[0]._endpoint not in (None, first), 60
            )
        for server in backend.engine.servers:
            server.mark_up()
        more = [begin(backend) for _ in range(2)]
        after = [len(server.clients) for server in backend.engine.servers]
        ends += [end(*stream) for stream in more]

    assert came_back
    assert ([2, 2], [1, 1]) == (before, after)
    assert [expected] * 6 == [text for text, _ in ends]
