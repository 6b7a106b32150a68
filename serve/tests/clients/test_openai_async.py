"""OpenAI's asynchronous client against the command; test_openai_sdk.py has the synchronous one."""

from __future__ import annotations

import asyncio
import base64

import pytest

from wlk_conformance.testing.digits import clip_path

openai = pytest.importorskip("openai", reason="install openai[realtime], or run nox -s clients")

pytestmark = pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager")
COMPLETED = "conversation.item.input_audio_transcription.completed"
DELTA = "conversation.item.input_audio_transcription.delta"
TRANSCRIPTION = {"intent": "transcription"}
VAD = {"type": "server_vad", "silence_duration_ms": 800, "prefix_padding_ms": 300}
APPEND_BYTES = 4800  # 0.1 s


@pytest.fixture
def run(server):
    """Return a function that runs a coroutine function with a client."""

    def run(function):
        async def with_client():
            async with openai.AsyncOpenAI(
                base_url=server.address, api_key="secret", max_retries=0
            ) as client:
                return await function(client)

        return asyncio.run(with_client())

    return run


async def append(connection, audio):
    """Send audio in appends of 0.1 s."""
    for first in range(0, len(audio), APPEND_BYTES):
        text = base64.b64encode(audio[first : first + APPEND_BYTES]).decode()
        await connection.input_audio_buffer.append(audio=text)


async def completed(connection, count):
    """Read until *count* items are completed; return their transcripts and their joined deltas."""
    transcripts, deltas = {}, {}
    async for event in connection:
        if event.type == DELTA:
            deltas[event.item_id] = deltas.get(event.item_id, "") + event.delta
        if event.type == COMPLETED:
            transcripts[event.item_id] = event.transcript
        if len(transcripts) == count:
            break
    return transcripts, deltas


def session(turn_detection):
    """Return a configuration, as OpenAI documents it."""
    audio = {
        "format": {"type": "audio/pcm", "rate": 24_000},
        "transcription": {"model": "digits", "language": "en"},
        "turn_detection": turn_detection,
    }
    return {"type": "transcription", "audio": {"input": audio}}


@pytest.mark.parametrize("response_format", ["json", "text", "srt", "vtt", "verbose_json"])
def test_every_format_has_the_words_of_the_command_line(run, expected, response_format):
    """Formats of text arrive as they are, the others as objects."""

    async def transcribe(client):
        return await client.audio.transcriptions.create(
            file=clip_path("demo"), model="digits", response_format=response_format
        )

    answer = run(transcribe)
    text = answer if isinstance(answer, str) else answer.text

    assert expected.words == [word for word in text.split() if word.islower()]


def test_a_stream_of_events_has_the_words_of_the_command_line(run, expected):
    """Joined deltas are the text of the last event."""

    async def transcribe(client):
        stream = await client.audio.transcriptions.create(
            file=clip_path("demo"), model="digits", stream=True
        )
        return [event async for event in stream]

    events = run(transcribe)

    deltas = [event.delta for event in events if event.type == "transcript.text.delta"]
    assert expected.text == "".join(deltas) == events[-1].text


def test_server_vad_completes_the_turns_of_the_command_line(run, expected, speech):
    """The server ends the turns."""

    async def transcribe(client):
        async with client.realtime.connect(extra_query=TRANSCRIPTION) as connection:
            await connection.session.update(session=session(VAD))
            await append(connection, speech() + bytes(2 * 48_000))
            return await completed(connection, len(expected.turns))

    transcripts, deltas = run(transcribe)

    assert list(expected.turns) == list(transcripts.values())
    assert transcripts == deltas
