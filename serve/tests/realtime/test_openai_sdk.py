"""OpenAI's own client, unmodified, against a server with the digits model."""

from __future__ import annotations

import base64

import numpy as np
import pytest

openai = pytest.importorskip("openai")
pytest.importorskip("faster_whisper")

from openai.types.realtime import (  # noqa: E402 -- after the skips
    ConversationItemAdded,
    ConversationItemDone,
)

from wlk_conformance.testing.digits import clip_path, load_clip  # noqa: E402 -- as above
from wlk_live import transcribe  # noqa: E402 -- as above

pytestmark = [
    pytest.mark.slow,
    # openai 3.54 opens its sockets in a way that websockets 17.1 deprecates.
    pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager"),
]
TURNS = "demo"
COMPLETED = "conversation.item.input_audio_transcription.completed"
DELTA = "conversation.item.input_audio_transcription.delta"
TRANSCRIPTION = {"intent": "transcription"}


@pytest.fixture(scope="module")
def transcript(digits):
    """Return the clip's transcript, made without a server."""
    backend, _ = digits
    return transcribe(backend, clip_path(TURNS), language="en")


@pytest.fixture
def client(address):
    """Return the synchronous client."""
    with openai.OpenAI(base_url=address, api_key="secret", max_retries=0) as client:
        yield client


def pcm(rate=16_000):
    """Return the clip as 16-bit samples at a rate, in appends of 0.1 s."""
    audio = load_clip(TURNS).audio
    spectrum = np.fft.rfft(audio)
    count = len(audio) * rate // 16_000
    audio = np.fft.irfft(spectrum[: count // 2 + 1], count) * (rate / 16_000)
    data = (np.clip(audio, -1, 1) * 32_767).astype("<i2").tobytes()
    size = rate // 5
    return [base64.b64encode(data[i : i + size]).decode() for i in range(0, len(data), size)]


def session(turn_detection, rate=16_000, **fields):
    """Return a configuration for 16-bit audio at a rate."""
    audio = {
        "format": {"type": "audio/pcm", "rate": rate},
        "transcription": {"model": "digits"},
        "turn_detection": turn_detection,
    }
    return {"type": "transcription", "audio": {"input": audio}, **fields}


def texts(events, kind):
    """Return transcripts or joined deltas, by item."""
    found = {}
    for event in events:
        if event.type == kind:
            text = event.transcript if kind == COMPLETED else event.delta
            found[event.item_id] = found.get(event.item_id, "") + text
    return found


def test_verbose_json_has_the_words_and_times_of_the_core(client, transcript):
    """Bracketed field names are understood, and segments equal the captions."""
    answer = client.audio.transcriptions.create(
        file=clip_path(TURNS),
        model="digits",
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
    )

    assert [(word.word, word.start, word.end) for word in answer.words] == [
        (w.text.strip(), round(w.start, 4), round(w.end, 4)) for w in transcript.words
    ]
    assert [segment.text for segment in answer.segments] == [s.text for s in transcript.segments]


@pytest.mark.parametrize("response_format", ["json", "text", "srt", "vtt"])
def test_every_format_has_the_words_of_the_core(client, transcript, response_format):
    """The SDK returns text formats as strings, the others as objects."""
    answer = client.audio.transcriptions.create(
        file=clip_path(TURNS), model="digits", response_format=response_format
    )
    text = answer if isinstance(answer, str) else answer.text

    assert [word for word in text.split() if word.islower()] == transcript.text.split()


def test_a_stream_of_events_has_the_words_of_the_core(client, transcript):
    """The deltas join to the text of the last event."""
    form = {"file": clip_path(TURNS), "model": "digits", "stream": True}
    events = list(client.audio.transcriptions.create(**form))

    deltas = [event.delta for event in events if event.type == "transcript.text.delta"]
    assert transcript.text == "".join(deltas) == events[-1].text


def test_models_are_listed_and_found(client):
    """User interfaces request the models first."""
    assert [model.id for model in client.models.list()] == ["digits"]
    assert client.models.retrieve("digits").id == "digits"


@pytest.mark.parametrize("rate", [8_000, 16_000, 24_000])
def test_a_committed_item_has_the_words_of_the_command_line(client, transcript, rate):
    """With manual turns, at telephone and OpenAI rates, deltas join to the transcript."""
    events = []
    with client.realtime.connect(model="digits") as connection:
        connection.session.update(session=session(None, rate))
        for audio in pcm(rate):
            connection.input_audio_buffer.append(audio=audio)
        connection.input_audio_buffer.commit()
        for event in connection:
            events.append(event)
            if event.type == COMPLETED:
                break

    assert list(texts(events, COMPLETED).values()) == [transcript.text]
    assert texts(events, DELTA) == texts(events, COMPLETED)
    words = [word["word"] for word in events[-1].words]
    assert words == transcript.text.split()
    kinds = [ConversationItemAdded, ConversationItemDone]
    item = [event for event in events if type(event) in kinds]
    assert [type(event) for event in item] == kinds
    assert [event.item.id for event in item] == [events[-1].item_id] * 2


def test_server_vad_completes_both_turns(client, transcript):
    """Each turn ends by itself, and its deltas join to its transcript."""
    events, silence = [], base64.b64encode(bytes(64_000)).decode()
    vad = {"type": "server_vad", "silence_duration_ms": 800, "prefix_padding_ms": 300}
    with client.realtime.connect(extra_query=TRANSCRIPTION) as connection:
        connection.session.update(session=session(vad))
        for audio in (*pcm(), silence):
            connection.input_audio_buffer.append(audio=audio)
        for event in connection:
            events.append(event)
            if len(turns := texts(events, COMPLETED)) == 2:
                break

    assert " ".join(turns.values()).split() == transcript.text.split()
    assert texts(events, DELTA) == turns


def test_a_client_secret_opens_a_configured_session_and_nothing_else(client, address, transcript):
    """The session has the secret's configuration; the browser sends none."""
    secret = client.realtime.client_secrets.create(session=session(None))
    with openai.OpenAI(base_url=address, api_key=secret.value, max_retries=0) as browser:
        with browser.realtime.connect(extra_query=TRANSCRIPTION) as connection:
            created = connection.recv()
            for audio in pcm():
                connection.input_audio_buffer.append(audio=audio)
            connection.input_audio_buffer.commit()
            while (event := connection.recv()).type != COMPLETED:
                assert event.type != "error"
        with pytest.raises(openai.AuthenticationError):
            browser.models.list()

    assert event.transcript == transcript.text
    assert created.session.audio.input.turn_detection is None
    assert created.session.audio.input.format.rate == 16_000
