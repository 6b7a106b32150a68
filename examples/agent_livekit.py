"""Print turns as a LiveKit agent gets them: agent_livekit.py http://127.0.0.1:8000 demo.flac."""

from __future__ import annotations

import asyncio
import os
import sys

from livekit import rtc
from livekit.agents.stt import SpeechEventType
from livekit.agents.utils import http_context
from livekit.plugins import deepgram
import numpy as np

from wlk_live import decode_file
from wlk_live.audio import rechunk

RATE = 16_000  # the output of decode_file
CHUNK = RATE // 20
SILENCE = np.zeros(2 * RATE, dtype=np.float32)  # ends the last turn


async def print_turns(address: str, path: str) -> None:
    """Print each turn, preceded by the preliminary text that an agent can start to answer."""
    key = os.environ.get("DEEPGRAM_API_KEY", "none")  # a key of wlk-serve
    # Pass the same object as `stt` of an AgentSession, with turn_detection="stt".
    stt = deepgram.STTv2(base_url=f"{address}/v2/listen", api_key=key, eager_eot_threshold=0.6)
    async with http_context.open(), stt.stream() as stream:

        async def speak() -> None:
            for chunk in rechunk([*decode_file(path), SILENCE], CHUNK):
                pcm = (chunk * 32_767).astype("<i2")
                stream.push_frame(rtc.AudioFrame(pcm.tobytes(), RATE, 1, len(pcm)))
                await asyncio.sleep(len(pcm) / RATE)
            stream.end_input()

        speaking = asyncio.create_task(speak())
        async for event in stream:
            if event.type == SpeechEventType.PREFLIGHT_TRANSCRIPT:
                print("probably:", event.alternatives[0].text, flush=True)
            elif event.type == SpeechEventType.FINAL_TRANSCRIPT:
                print("turn:", event.alternatives[0].text, flush=True)
        await speaking
    await stt.aclose()


if len(sys.argv) != 3:  # noqa: PLR2004 -- this script, an address and a recording
    sys.exit("usage: python agent_livekit.py http://127.0.0.1:8000 demo.flac")
asyncio.run(print_turns(sys.argv[1], sys.argv[2]))
