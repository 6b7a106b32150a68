"""The model that is served: sessions for sockets, transcriptions of files, a canary."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
import logging
import math
import os
import threading
import time
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import attrs
import numpy as np

from wlk_core.audio import decode_file
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session import Failure, Session, transcribe_stream
from wlk_core.vad import SilenceGate, SileroDetector, silence_gate
from wlk_serve.engine_turns import EngineTurns
from wlk_serve.errors import RequestError
from wlk_serve.metrics import Metrics
from wlk_serve.openings import Openings
from wlk_serve.recordings import Recording, in_turns
from wlk_serve.scheduling import Scheduler
from wlk_serve.session_stream import SessionStream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
    from types import TracebackType

    from wlk_core.backend import Backend
    from wlk_core.processor import OnlineProcessor
    from wlk_core.session.events import Event
    from wlk_serve.diarizers import DiarizerSource
    from wlk_serve.model_card import ModelCard
    from wlk_serve.protocols.openai_rest import TranscriptionRequest
    from wlk_serve.protocols.streams import StreamConfig
    from wlk_serve.recordings import Result

__all__ = ["Service", "SessionStream"]

_LOGGER = logging.getLogger(__name__)

_MAX_BACKLOG_SECONDS = 900.0  # more than the largest append of 15 MiB at 8 kHz G.711 is refused
_MAX_LATENESS = 5.0  # seconds after their deadline, of one step in a hundred
_MAX_FILES = 1000  # threads, which exist while they are needed: uploads may be slow
_CANARY_SECONDS = 0.5
_CANARY_TIMEOUT = 10.0


class Service:
    """
    One loaded backend for many clients; a context manager, which leaves the backend open.

    Sessions are stepped by a scheduler; each recording that is uploaded has a thread of its own,
    because decoding its container blocks.  Together they make at most as many engine calls at a
    time as the backend declares, and recordings only while no session waits.

    Args:
        backend: the loaded backend.
        card: what clients may know of it.
        stream_options: the options of scope "stream" of every stream.
        diarizers: opens a diarizer for each session over a socket, and for each recording whose
            speakers are asked for; None for a server without speakers.
        workers: how many sessions and recordings use the model at a time; None for what the backend
            declares as `max_concurrent_calls`, else one a CPU core.
        metrics: what is counted; None for new metrics.

    """

    def __init__(
        self,
        backend: Backend,
        card: ModelCard,
        *,
        stream_options: Mapping[str, Any] | None = None,
        diarizers: DiarizerSource | None = None,
        workers: int | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._diarizers = diarizers
        delay = None if diarizers is None else diarizers.max_delay
        self.card = attrs.evolve(card.declared_by(backend), speaker_delay=delay)
        self._backend = backend
        self._stream_options = dict(stream_options or {})
        count = workers or card.spec.max_concurrent_calls or os.cpu_count() or 1
        same_thread = card.spec.thread_affinity == "same-thread"
        # Load refuses connections (`check_load`), never the audio of a session that was accepted.
        self.metrics = Metrics() if metrics is None else metrics
        self._turns = EngineTurns(count)
        self._scheduler = Scheduler(
            workers=count,
            same_thread=same_thread,
            max_lateness=math.inf,
            on_step=self.metrics.step_seconds.observe,
            turns=self._turns.sessions,
        )
        self._files = ThreadPoolExecutor(_MAX_FILES, "wlk-file")
        self._openings = Openings()
        self._closers = ThreadPoolExecutor(2, "wlk-close")
        self._canary = asyncio.Lock()
        self._last_canary = -1e9

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop every session; the backend stays open."""
        self._scheduler.close()
        self._files.shutdown(cancel_futures=True)
        self._openings.close()
        self._closers.shutdown()

    @property
    def lateness(self) -> float:
        """Seconds after their deadline at which one step in a hundred ends; 0 without sessions."""
        lateness = self._scheduler.lateness if len(self._scheduler) else None
        return 0.0 if lateness is None else lateness

    def check_load(self) -> None:
        """
        Check that the sessions which run keep up.

        Raises:
            RequestError: their steps end too late; a new attempt can succeed.

        """
        if self.lateness > _MAX_LATENESS:
            raise RequestError(
                f"the sessions that run are {self.lateness:.1f} s late; try again later",
                status=503,
                code="server_overloaded",
                retry_after=10,
            )

    async def open_stream(
        self, config: StreamConfig, on_events: Callable[[SessionStream, list[Event]], object]
    ) -> SessionStream:
        """
        Open a session whose events are given to *on_events* in the running event loop.

        The backend opens its stream in a thread, because it may wait, as for another server.  A
        caller that is cancelled leaves nothing open.

        Raises:
            OptionError: the backend refuses the language or the prompt.
            BackendError: the backend could not open a stream.
            StreamClosed: the service is closed.

        """
        loop = asyncio.get_running_loop()
        stream = await self._openings.open(
            partial(self._new_stream, config), close=SessionStream.close
        )
        with ExitStack() as stack:
            stack.callback(stream.close)
            stream.attachment = self._scheduler.attach(
                stream.session,
                lambda events: on_events(stream, events),
                call=loop.call_soon_threadsafe,
            )
            stack.pop_all()
        return stream

    def _new_stream(self, config: StreamConfig) -> SessionStream:
        """Return a session that is not stepped yet; may block."""
        with ExitStack() as stack:
            options = self._options(config.prompt)
            processor = self._processor("transcribe", config.language, options)
            stack.enter_context(closing(processor))
            diarizer = None
            if self._diarizers is not None:
                diarizer = stack.enter_context(closing(self._diarizers.open()))
            session = Session(
                processor,
                gate=_gate(config),
                diarizer=diarizer,
                encoding=config.encoding,
                rate=config.rate,
                max_backlog_seconds=_MAX_BACKLOG_SECONDS,
            )
            stack.pop_all()
        return SessionStream(session, processor, diarizer, self._close_stream)

    async def recognize(
        self,
        file: BinaryIO,
        request: TranscriptionRequest,
        use: Callable[[float], object],
    ) -> AsyncGenerator[Result]:
        """
        Yield the committed tokens of a recording as they come, and at last all of them.

        Where speakers are asked for, their lines are yielded too, as they become certain.

        Args:
            file: the recording.
            request: how it is transcribed.
            use: called with the seconds of each decoded piece, in another thread; may raise
                RequestError.

        Raises:
            RequestError, WLKError: the recording holds no audio, or the engine or the diarizer
                failed.

        """
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event | Exception | None] = asyncio.Queue()
        is_stopped = threading.Event()

        def publish(event: Event | Exception | None) -> None:
            loop.call_soon_threadsafe(events.put_nowait, event)

        def run() -> None:
            try:
                for event in self._recording_events(file, request, use):
                    if is_stopped.is_set():
                        return
                    publish(event)
                publish(None)
            except Exception as error:  # noqa: BLE001 -- raised again in the event loop
                publish(error)

        job = loop.run_in_executor(self._files, run)
        result = Recording(request, self.card.speaker_delay)
        try:
            while (event := await events.get()) is not None:
                if isinstance(event, Exception):
                    raise event
                for part in result.add(event):
                    yield part
        finally:
            is_stopped.set()
            await asyncio.wait([job])  # the file is closed after this
        yield result.recognized()

    def _recording_events(
        self, file: BinaryIO, request: TranscriptionRequest, use: Callable[[float], object]
    ) -> Iterator[Event]:
        """Yield the events of a recording, in the thread that decodes it."""
        with ExitStack() as stack:
            diarizer = None
            if request.has_speakers and self._diarizers is not None:
                diarizer = stack.enter_context(closing(self._diarizers.open()))
            options = self.card.spec.recording_options(self._options(request.prompt))
            processor = self._processor(request.task, request.language, options)
            stack.enter_context(closing(processor))
            pieces = in_turns(decode_file(file), self._turns.recordings, use)
            events = transcribe_stream(processor, pieces, gate=silence_gate(), diarizer=diarizer)
            stack.enter_context(self._turns.recordings)
            stack.enter_context(closing(events))
            yield from events

    async def check_canary(self, max_age: float) -> None:
        """
        Let a short session come through, unless one did in the last *max_age* seconds.

        Raises:
            RequestError: it did not end in time, or it failed.

        """
        async with self._canary:
            if time.monotonic() - self._last_canary < max_age:
                return
            try:
                async with asyncio.timeout(_CANARY_TIMEOUT):
                    await self._run_canary()
            except TimeoutError:
                raise RequestError(
                    "no engine call came through in time", status=503, code="not_ready"
                ) from None
            self._last_canary = time.monotonic()

    async def wait_for_canary(self) -> None:
        """Wait until no canary runs, as before `close`."""
        async with self._canary:
            pass

    async def _run_canary(self) -> None:
        processor = await self._openings.open(
            partial(self._processor, "transcribe", self.card.language, self._options(None)),
            close=self._close_processor,
        )
        with ExitStack() as stack:
            stack.callback(self._close_processor, processor)
            session = Session(processor)
            attachment = self._scheduler.attach(session)
            stack.callback(attachment.detach, wait=False)
            session.receive(np.zeros(round(_CANARY_SECONDS * SAMPLE_RATE), dtype=np.float32))
            session.end_audio()
            attachment.notify()
            async for event in attachment.events():
                if isinstance(event, Failure) and event.is_final:
                    raise RequestError(str(event.error), status=503, code="not_ready")

    def _processor(
        self, task: str, language: str | None, options: Mapping[str, Any]
    ) -> OnlineProcessor:
        return self._backend.create_processor(language=language, task=task, **options)

    def _options(self, prompt: str | None) -> dict[str, Any]:
        return (
            self._stream_options if prompt is None else {**self._stream_options, "prompt": prompt}
        )

    def _close_stream(self, stream: SessionStream) -> None:
        self._close_later(stream.release)

    def _close_processor(self, processor: OnlineProcessor) -> None:
        self._close_later(processor.close)

    def _close_later(self, close: Callable[[], object]) -> None:
        """Call *close* in a thread, and log what it raises: nothing waits for it."""
        self._closers.submit(close).add_done_callback(_log_failure)


def _log_failure(closing: Future[object]) -> None:
    error = closing.exception()
    if error is not None:
        _LOGGER.error("a session was not closed properly", exc_info=error)


def _gate(config: StreamConfig) -> SilenceGate | None:
    if not config.leaves_out_pauses:
        return None
    times = config.gate
    if times is None:
        return SilenceGate(SileroDetector())
    return SilenceGate(
        SileroDetector(),
        threshold=times.threshold,
        quiet_threshold=times.quiet_threshold,
        pre_roll=times.pre_roll,
        hang_over=times.hang_over,
        min_silence=times.min_silence,
    )
