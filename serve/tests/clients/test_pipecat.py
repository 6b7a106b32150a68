"""The OpenAI Realtime service of Pipecat, unmodified: only its `base_url` is set."""

from __future__ import annotations

import asyncio
import re

import pytest

REASON = "install pipecat-ai[openai], or run nox -s clients"
pytest.importorskip("pipecat.services.openai.stt", reason=REASON)

from loguru import logger  # noqa: E402 -- after the skip
from pipecat.frames.frames import (  # noqa: E402 -- as above
    EndFrame,
    ErrorFrame,
    InputAudioRawFrame,
    InterimTranscriptionFrame,
    ProposedUserStartedSpeakingFrame,
    ProposedUserStoppedSpeakingFrame,
    TranscriptionFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline  # noqa: E402 -- as above
from pipecat.pipeline.worker import PipelineParams, PipelineWorker  # noqa: E402 -- as above
from pipecat.processors.frame_processor import (  # noqa: E402 -- as above
    FrameDirection,
    FrameProcessor,
)
from pipecat.services.openai.stt import OpenAIRealtimeSTTService  # noqa: E402 -- as above
from pipecat.workers.runner import WorkerRunner  # noqa: E402 -- as above

RATE = 16_000  # as in most pipelines; the service resamples
FRAME_BYTES = RATE // 50 * 2  # 20 ms
SILENCE = bytes(2 * RATE * 2)
PAUSE = 6.5  # seconds: between the two turns of the clip
VAD = {"type": "server_vad", "silence_duration_ms": 800, "prefix_padding_ms": 300}
READY = "session configured and ready"  # the service logs it at each connection


class End(FrameProcessor):
    """One end of the pipeline, which calls back for each frame that arrives."""

    def __init__(self, direction, on_frame):
        super().__init__(enable_direct_mode=True)
        self._direction = direction
        self._on_frame = on_frame

    async def process_frame(self, frame, direction):
        """Report a frame and pass it on."""
        await super().process_frame(frame, direction)
        if direction == self._direction:
            await self._on_frame(frame)
        await self.push_frame(frame, direction)


class Talk:
    """
    A pipeline with only the service, which ends after a number of words.

    Whenever a log line matches *ready*, such as when the service has configured a session, the
    next list of frames is queued.
    """

    def __init__(self, service, words, *queued, ready=READY):
        self.frames = []
        self.on_interim = None  # called at the first one
        self._words = words
        self._queued = list(queued)
        self._ready = ready
        self._tasks = []
        source = End(FrameDirection.UPSTREAM, self._take)
        sink = End(FrameDirection.DOWNSTREAM, self._take)
        self._worker = PipelineWorker(
            Pipeline([source, service, sink]),
            params=PipelineParams(audio_in_sample_rate=RATE),
            cancel_on_idle_timeout=False,
            enable_rtvi=False,
        )

    @property
    def finals(self):
        """The transcripts."""
        return [frame.text for frame in self.kept(TranscriptionFrame)]

    def kept(self, kind):
        """Return the frames of a kind."""
        return [frame for frame in self.frames if type(frame) is kind]

    async def run(self):
        """Run the pipeline to its end."""
        handle = logger.add(self._begin, filter=self._is_ready)
        try:
            runner = WorkerRunner(handle_sigint=False)
            await runner.add_workers(self._worker)
            await runner.run()
        finally:
            logger.remove(handle)
        return self

    def _is_ready(self, record):
        return self._queued and re.search(self._ready, record["message"])

    def _begin(self, _message):
        self._tasks.append(asyncio.create_task(self._queue(self._queued.pop(0))))

    async def _queue(self, frames):
        for frame in frames:
            await self._worker.queue_frame(frame)

    async def _take(self, frame):
        self.frames.append(frame)
        if isinstance(frame, InterimTranscriptionFrame) and self.on_interim is not None:
            call, self.on_interim = self.on_interim, None
            call()
        has_all = len(" ".join(self.finals).split()) >= self._words
        if isinstance(frame, TranscriptionFrame) and has_all:
            await self._worker.queue_frame(EndFrame())


def service(server, **options):
    """Return the service."""
    settings = OpenAIRealtimeSTTService.Settings(model="digits")
    url = server.address.replace("http:", "ws:") + "/realtime"
    return OpenAIRealtimeSTTService(api_key="secret", base_url=url, settings=settings, **options)


def frames(audio):
    """Divide audio into frames of 20 ms."""
    parts = [audio[first : first + FRAME_BYTES] for first in range(0, len(audio), FRAME_BYTES)]
    return [InputAudioRawFrame(part, RATE, 1) for part in parts]


def test_a_turn_that_the_pipeline_ends_has_the_words_of_the_command_line(server, expected, speech):
    """Each interim frame has a delta, and the final frame has the words of the event."""

    async def transcribe():
        queued = [*frames(speech(RATE)), VADUserStoppedSpeakingFrame()]
        return await Talk(service(server), len(expected.words), queued).run()

    talk = asyncio.run(transcribe())

    assert talk.finals == [expected.text]
    assert "".join(frame.text for frame in talk.kept(InterimTranscriptionFrame)) == expected.text
    (final,) = talk.kept(TranscriptionFrame)
    assert [word["word"] for word in final.result["words"]] == expected.words
    assert talk.kept(ErrorFrame) == []


def test_server_vad_has_the_turns_of_the_command_line(server, expected, speech):
    """The service announces the turns that the server detects, upstream and downstream."""

    async def transcribe():
        queued = frames(speech(RATE) + SILENCE)
        stt = service(server, turn_detection=VAD)
        return await Talk(stt, len(expected.words), queued).run()

    talk = asyncio.run(transcribe())

    assert talk.finals == list(expected.turns)
    twice = 2 * len(expected.turns)
    assert len(talk.kept(ProposedUserStartedSpeakingFrame)) == twice
    assert len(talk.kept(ProposedUserStoppedSpeakingFrame)) == twice
    assert talk.kept(ErrorFrame) == []


def test_a_restart_loses_no_word(restartable, expected, speech):
    """SIGTERM completes the open turn; the service reconnects and configures itself again."""

    async def transcribe():
        stt = service(restartable)
        first = frames(speech(RATE, stop=PAUSE))
        second = [*frames(speech(RATE, start=PAUSE)), VADUserStoppedSpeakingFrame()]
        talk = Talk(stt, len(expected.words), first, second)
        talk.on_interim = restartable.terminate
        restarts = [restartable.restart]

        @stt.event_handler("on_disconnected")
        async def disconnected(_service):
            if restarts:  # the pipeline's end calls it, too
                restarts.pop()()

        return await talk.run()

    talk = asyncio.run(transcribe())

    assert talk.finals == list(expected.turns)
