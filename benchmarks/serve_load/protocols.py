"""Client sessions in real time: OpenAI Realtime with `server_vad` or commits, and `/asr`."""

from __future__ import annotations

import asyncio
import base64
from contextlib import suppress
import json
from typing import TYPE_CHECKING, Any

from websockets.asyncio.client import connect

from serve_load.talk import Report
from wlk_core.processor import SAMPLE_RATE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from serve_load.talk import Talk

CHUNK_SECONDS = 0.05  # LiveKit's chunk size
SILENCE_SECONDS = 0.5  # silence after which `server_vad` ends an utterance: OpenAI's default
_CHUNK_BYTES = round(CHUNK_SECONDS * SAMPLE_RATE) * 2
_LAST_SECONDS = 60.0  # how long to wait for messages after the end of the audio
_COMPLETED = "conversation.item.input_audio_transcription.completed"


async def _chunks(talk: Talk, began: float) -> AsyncIterator[tuple[bytes, float]]:
    """Yield each chunk once it has been spoken, with the stream time of its end."""
    clock = asyncio.get_running_loop().time
    data = talk.pcm
    for number, first in enumerate(range(0, len(data), _CHUNK_BYTES), 1):
        await asyncio.sleep(max(0.0, began + number * CHUNK_SECONDS - clock()))
        yield data[first : first + _CHUNK_BYTES], number * CHUNK_SECONDS


async def _session(socket: Any, send: Any, receive: Callable[[dict[str, Any]], bool]) -> None:
    """Send audio, and receive until *receive* returns true or _LAST_SECONDS after the audio."""

    async def read() -> None:
        async for message in socket:
            if receive(json.loads(message)):
                return

    reader = asyncio.create_task(read())
    await send()
    with suppress(TimeoutError):
        await asyncio.wait_for(reader, _LAST_SECONDS)


async def _realtime(address: str, talk: Talk, began: float, *, commits: bool) -> Report:
    clock = asyncio.get_running_loop().time
    report, texts = Report(), []
    vad = {
        "type": "server_vad",
        "silence_duration_ms": round(1000 * SILENCE_SECONDS),
        "prefix_padding_ms": 300,
    }
    audio = {
        "format": {"type": "audio/pcm", "rate": SAMPLE_RATE},
        "turn_detection": None if commits else vad,
    }
    update = {
        "type": "session.update",
        "session": {"type": "transcription", "audio": {"input": audio}},
    }
    last = (talk.utterances[-1].last_start + talk.utterances[-1].end) / 2

    def receive(message: dict[str, Any]) -> bool:
        if message["type"] == "error":
            raise RuntimeError(message["error"]["message"])
        if message["type"] != _COMPLETED:
            return False
        texts.append(message["transcript"])
        end = message.get("end") or 0.0  # an item without words has no times
        report.finals.append((clock() - began, end))
        return bool(end >= last)

    async with connect(f"{address}/v1/realtime?intent=transcription", compression=None) as socket:
        await socket.send(json.dumps(update))

        async def send() -> None:
            waiting = [utterance.end for utterance in talk.utterances]
            async for data, time in _chunks(talk, began):
                message = {
                    "type": "input_audio_buffer.append",
                    "audio": base64.b64encode(data).decode(),
                }
                await socket.send(json.dumps(message))
                report.lateness.append(clock() - began - time)
                if commits and waiting and time >= waiting[0] + CHUNK_SECONDS:
                    waiting.pop(0)
                    report.commits.append(time)
                    await socket.send('{"type": "input_audio_buffer.commit"}')

        await _session(socket, send, receive)
    report.text = " ".join(texts)
    return report


async def asr(address: str, talk: Talk, began: float) -> Report:
    """Send raw samples to `/asr` in mode "full"; only its lines count as final text."""
    clock = asyncio.get_running_loop().time
    report = Report()

    def receive(message: dict[str, Any]) -> bool:
        lines = [line for line in message.get("lines", ()) if line["text"]]
        if lines:
            report.text = " ".join(line["text"] for line in lines)
            hours, minutes, seconds = lines[-1]["end"].split(":")
            end = 3600 * int(hours) + 60 * int(minutes) + float(seconds)
            report.finals.append((clock() - began, end))
        return bool(message.get("type") == "ready_to_stop")

    async with connect(f"{address}/asr", compression=None) as socket:

        async def send() -> None:
            async for data, time in _chunks(talk, began):
                await socket.send(data)
                report.lateness.append(clock() - began - time)
            await socket.send(b"")

        await _session(socket, send, receive)
    return report


async def realtime_vad(address: str, talk: Talk, began: float) -> Report:
    """Send speech to OpenAI Realtime; the server ends the utterances."""
    return await _realtime(address, talk, began, commits=False)


async def realtime_commit(address: str, talk: Talk, began: float) -> Report:
    """Send speech to OpenAI Realtime; the client ends each utterance as soon as it is spoken."""
    return await _realtime(address, talk, began, commits=True)
