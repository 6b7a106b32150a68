"""Hear turns as an agent of Pipecat does: agent_pipecat.py ws://127.0.0.1:8000 demo.flac."""

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

from wlk_core.audio import decode_file, rechunk

RATE = 16_000  # of decode_file
CHUNK = RATE // 50
SILENCE = np.zeros(2 * RATE, dtype=np.float32)  # so that the last turn ends


class Turns(FrameProcessor):
    """Print each turn; the language model of an agent comes here."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Print a transcript, and pass everything on."""
        await super().process_frame(frame, direction)
        if isinstance(frame, TranscriptionFrame):
            print("turn:", frame.text, flush=True)
        await self.push_frame(frame, direction)


async def hear(address: str, path: str) -> None:
    """Run a pipeline for the length of a recording."""
    key = os.environ.get("DEEPGRAM_API_KEY", "none")  # of the server
    stt = DeepgramFluxSTTService(api_key=key, url=f"{address}/v2/listen")
    params = PipelineParams(audio_in_sample_rate=RATE)
    worker = PipelineWorker(Pipeline([stt, Turns()]), params=params, enable_rtvi=False)

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
asyncio.run(hear(sys.argv[1], sys.argv[2]))
