"""Stream a recording in real time: python realtime_file.py http://127.0.0.1:8000/v1 demo.flac."""

from __future__ import annotations

import asyncio
import base64
import os
import sys

import numpy as np
from openai import AsyncOpenAI

from wlk_live import decode_file

RATE = 16_000  # the output of decode_file
CHUNK = RATE // 10
TRANSCRIPTION = "conversation.item.input_audio_transcription"


async def transcribe(address: str, path: str) -> None:
    """Print the words of a recording while it is streamed."""
    key = os.environ.get("OPENAI_API_KEY", "none")
    pcm = (np.concatenate(list(decode_file(path))) * 32_767).astype("<i2")
    async with (
        AsyncOpenAI(base_url=address, api_key=key) as client,
        client.realtime.connect(extra_query={"intent": "transcription"}) as connection,
    ):
        await connection.session.update(
            session={
                "type": "transcription",
                "audio": {
                    "input": {"format": {"type": "audio/pcm", "rate": RATE}, "turn_detection": None}
                },
            }
        )

        async def speak() -> None:
            for first in range(0, len(pcm), CHUNK):
                data = base64.b64encode(pcm[first : first + CHUNK].tobytes()).decode()
                await connection.input_audio_buffer.append(audio=data)
                await asyncio.sleep(CHUNK / RATE)
            await connection.input_audio_buffer.commit()

        speaking = asyncio.create_task(speak())
        async for event in connection:
            if event.type == f"{TRANSCRIPTION}.delta":
                print(event.delta, end="", flush=True)
            elif event.type == f"{TRANSCRIPTION}.completed":
                break
        await speaking
    print()


if len(sys.argv) != 3:  # noqa: PLR2004 -- this script, an address and a recording
    sys.exit("usage: python realtime_file.py http://127.0.0.1:8000/v1 demo.flac")
asyncio.run(transcribe(sys.argv[1], sys.argv[2]))
