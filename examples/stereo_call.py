"""Transcribe one speaker per channel: python stereo_call.py http://127.0.0.1:8000/v1 call.wav."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
import wave

import numpy as np
from openai import AsyncOpenAI


async def turns_of(client: AsyncOpenAI, pcm: np.ndarray, rate: int) -> list[tuple[float, str]]:
    """Return the start, in seconds, and the text of each turn in a channel."""
    turn_detection = {"type": "server_vad"}
    form = {"format": {"type": "audio/pcm", "rate": rate}, "turn_detection": turn_detection}
    session = {"type": "transcription", "audio": {"input": form}}
    async with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        await connection.send({"type": "session.update", "session": session})
        for first in range(0, len(pcm), 10 * rate):
            data = base64.b64encode(pcm[first : first + 10 * rate].tobytes()).decode()
            await connection.send({"type": "input_audio_buffer.append", "audio": data})
        await connection.send({"type": "wlk.end"})  # the server closes after the last words
        return [
            (event.words[0]["start"], event.transcript)
            async for event in connection
            if event.type.endswith(".completed") and event.transcript
        ]


async def transcribe(address: str, path: str) -> None:
    """Print the turns of both channels, ordered by their start."""
    with wave.open(path) as call:
        if (call.getnchannels(), call.getsampwidth()) != (2, 2):
            sys.exit("expected a WAV file of two channels with 16-bit samples")
        pcm = np.frombuffer(call.readframes(call.getnframes()), "<i2").reshape(-1, 2)
        rate = call.getframerate()
    key = os.environ.get("OPENAI_API_KEY", "none")
    async with AsyncOpenAI(base_url=address, api_key=key) as client:
        channels = (turns_of(client, pcm[:, side], rate) for side in (0, 1))
        left, right = await asyncio.gather(*channels)
    turns = [(*turn, "left") for turn in left] + [(*turn, "right") for turn in right]
    for start, text, side in sorted(turns):
        print(f"{start:7.2f} {side}: {text}")


if len(sys.argv) != 3:  # noqa: PLR2004 -- this script, an address and a recording
    sys.exit("usage: python stereo_call.py http://127.0.0.1:8000/v1 call.wav")
asyncio.run(transcribe(sys.argv[1], sys.argv[2]))
