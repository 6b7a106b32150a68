"""Deepgram's own SDK, unmodified but for the address: ``listen.v1`` and ``listen.v2``."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
import threading

import numpy as np
import pytest

deepgram = pytest.importorskip("deepgram")

from deepgram.core.events import EventType  # noqa: E402 -- after the skip
from deepgram.environment import DeepgramClientEnvironment  # noqa: E402 -- as above
from websockets.exceptions import InvalidStatus  # noqa: E402 -- as above

from wlk_conformance.testing.digits import clip_path  # noqa: E402 -- as above

from .conftest import KEY  # noqa: E402 -- as above

WAIT = 60.0  # seconds after which a test that waits has failed
RATE = 16_000
BYTES = 2 * RATE  # per second


def connected(server, key):
    """Return the SDK's client, connected to *server*."""
    names = [*inspect.signature(DeepgramClientEnvironment).parameters]
    address = server.address.removesuffix("/v1").replace("http", "ws")
    environment = DeepgramClientEnvironment(**dict.fromkeys(names, address))
    return deepgram.DeepgramClient(api_key=key, environment=environment)


@pytest.fixture(scope="module")
def client(server):
    """Return the SDK's client with the server's key."""
    return connected(server, KEY)


@pytest.fixture
def listen(client):
    """Return a function that sends audio in parts and Finalize after some; it returns answers."""

    def listen(audio, *, size=3200, finalize_at=(), **options):
        found = []
        settings = {"model": "nova-3", "encoding": "linear16", "sample_rate": RATE}
        with client.listen.v1.connect(**settings, **options) as socket:
            socket.on(EventType.MESSAGE, found.append)
            thread = threading.Thread(target=socket.start_listening)
            thread.start()
            finalizes = sorted(finalize_at)
            for start in range(0, len(audio), size):
                while finalizes and start >= finalizes[0]:
                    finalizes.pop(0)
                    socket.send_finalize()
                    socket.send_keep_alive()
                socket.send_media(audio[start : start + size])
            socket.send_close_stream()
            thread.join(WAIT)
        assert not thread.is_alive()
        return found

    return listen


def finals(messages):
    """Return the final results."""
    return [message for message in messages if message.type == "Results" and message.is_final]


def words(messages):
    """Return the words of the final results."""
    alternatives = [message.channel.alternatives[0] for message in finals(messages)]
    return " ".join(alternative.transcript for alternative in alternatives).split()


def timed(results):
    """Return the words of results with their times."""
    alternatives = [result.channel.alternatives[0] for result in results]
    return [(word.word, word.start, word.end) for each in alternatives for word in each.words]


@pytest.mark.parametrize("size", [640, 999, 401_280])
def test_the_words_are_those_of_the_command_line(listen, speech, expected, size):
    """Parts can have any size, even incomplete samples; the SDK parses all answers."""
    messages = listen(
        speech(RATE), size=size, interim_results=True, vad_events=True, utterance_end_ms=1000
    )

    assert words(messages) == expected.words
    kinds = {message.type for message in messages}
    assert kinds == {"Results", "SpeechStarted", "UtteranceEnd", "Metadata"}
    assert messages[-1].type == "Metadata"
    assert finals(messages)[-1].speech_final


def test_ten_finalizes_lose_and_double_nothing(listen, speech, expected):
    """Each Finalize is answered; they are sent between words, as voice agents do."""
    gaps = [round((start - 0.04) * RATE) * 2 for start in expected.starts[1:11]]
    messages = listen(speech(RATE), size=640, finalize_at=gaps, interim_results=True)

    assert words(messages) == expected.words
    assert sum(bool(message.from_finalize) for message in finals(messages)) == 10


def test_the_words_of_each_channel_are_those_of_a_socket_of_its_own(listen, speech):
    """In one session, results name their channel; the SDK parses the answers."""
    first = speech(RATE)
    second = bytes(3 * BYTES) + first[: 6 * BYTES] + bytes(len(first) - 9 * BYTES)
    both = np.stack([np.frombuffer(part, "<i2") for part in (first, second)], 1).tobytes()
    messages = listen(both, channels=2, multichannel=True)

    for channel, part in enumerate((first, second)):
        own = [each for each in finals(messages) if each.channel_index == [channel, 2]]
        assert timed(own) == timed(finals(listen(part))) != []
    assert (messages[-1].type, messages[-1].channels) == ("Metadata", 2)


@pytest.mark.parametrize("size", [999, 2560, 401_280])
def test_turns_join_to_the_words_of_the_command_line(client, speech, expected, size):
    """In Flux, each turn starts, may end eagerly, and ends with all of its words."""
    found, audio = [], speech(RATE)
    settings = {"model": "flux-general-en", "encoding": "linear16", "sample_rate": RATE}
    with client.listen.v2.connect(**settings, eager_eot_threshold=0.5) as socket:
        socket.on(EventType.MESSAGE, found.append)
        thread = threading.Thread(target=socket.start_listening)
        thread.start()
        for start in range(0, len(audio), size):
            socket.send_media(audio[start : start + size])
        socket.send_close_stream()
        thread.join(WAIT)

    assert not thread.is_alive()
    assert found[0].type == "Connected"
    ends = [message.transcript for message in found[1:] if message.event == "EndOfTurn"]
    assert ends == list(expected.turns)
    assert len(ends) == [message.event for message in found[1:]].count("StartOfTurn")


def test_a_recording_is_answered_with_the_words_of_the_command_line(server, expected):
    """One request suffices, and the SDK parses the answer."""
    names = [*inspect.signature(DeepgramClientEnvironment).parameters]
    address = server.address.removesuffix("/v1")
    environment = DeepgramClientEnvironment(**dict.fromkeys(names, address))
    client = deepgram.DeepgramClient(api_key=KEY, environment=environment)
    answer = client.listen.v1.media.transcribe_file(
        request=Path(clip_path("demo")).read_bytes(), model="nova-3", utterances=True
    )

    (alternative,) = answer.results.channels[0].alternatives
    assert alternative.transcript.split() == expected.words
    assert (
        " ".join(utterance.transcript for utterance in answer.results.utterances).split()
        == expected.words
    )


def test_a_wrong_key_is_refused(server):
    """The refusal has Deepgram's fields."""
    with (
        pytest.raises(InvalidStatus) as refusal,
        connected(server, "wrong").listen.v1.connect(
            model="nova-3", encoding="linear16", sample_rate=RATE
        ),
    ):
        pass

    assert refusal.value.response.status_code == 401
    assert json.loads(refusal.value.response.body)["err_code"] == "INVALID_AUTH"
