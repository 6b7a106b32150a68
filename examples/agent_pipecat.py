"""Print turns as a Pipecat agent gets them: agent_pipecat.py ws://127.0.0.1:8000 demo.flac."""

from __future__ import annotations

import asyncio
import os
import sys

import numpy as np
from pipecat.frames.frames import EndFrame, Frame, InputAudioRawFrame, TranscriptionFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.deepgram.flux.stt import DeepgramFluxSTTService
from pipecat.workers.runner import WorkerRunner

from wlk_live import decode_file
from wlk_live.audio import rechunk

RATE = 16_000  # the output of decode_file
CHUNK = RATE // 50
SILENCE = np.zeros(2 * RATE, dtype=np.float32)  # ends the last turn


class TurnPrinter(FrameProcessor):
    """Print each turn; an agent has its language model in this place."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Print transcripts, and pass on all frames."""
        await super().process_frame(frame, direction)
        if isinstance(frame, TranscriptionFrame):
            print("turn:", frame.text, flush=True)
        await self.push_frame(frame, direction)


async def print_turns(address: str, path: str) -> None:
    """Run a pipeline until a recording ends."""
    key = os.environ.get("DEEPGRAM_API_KEY", "none")  # a key of wlk-serve
    stt = DeepgramFluxSTTService(api_key=key, url=f"{address}/v2/listen")
    params = PipelineParams(audio_in_sample_rate=RATE)
    worker = PipelineWorker(Pipeline([stt, TurnPrinter()]), params=params, enable_rtvi=False)

    @stt.event_handler("on_connected")
    async def speak(_service: object) -> None:
        for chunk in rechunk([*decode_file(path), SILENCE], CHUNK):
            pcm = (chunk * 32_767).astype("<i2").tobytes()
            await worker.queue_frame(InputAudioRawFrame(pcm, RATE, 1))
            await asyncio.sleep(len(chunk) / RATE)
        await worker.queue_frame(EndFrame())

    runner = WorkerRunner()
    await runner.add_workers(worker)
    await runner.run()


if len(sys.argv) != 3:  # noqa: PLR2004 -- this script, an address and a recording
    sys.exit("usage: python agent_pipecat.py ws://127.0.0.1:8000 demo.flac")
asyncio.run(print_turns(sys.argv[1], sys.argv[2]))
