"""One loaded model for many clients: streams for sockets, transcriptions of files, a canary."""

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
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeVar

import attrs
import numpy as np

from wlk_core.audio import decode_file
from wlk_core.errors import OptionError, StreamClosed, WLKError
from wlk_core.processor import SAMPLE_RATE
from wlk_core.session import Failure, Session, transcribe_stream
from wlk_core.vad import SilenceGate, SileroDetector, silence_gate
from wlk_serve.errors import RequestError, as_failure
from wlk_serve.models.engine_turns import EngineTurns
from wlk_serve.models.stream import ServedStream
from wlk_serve.ops.metrics import Metrics
from wlk_serve.scheduler import Scheduler
from wlk_serve.transcriptions.recording import Recording, in_turns

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
    from types import TracebackType

    from wlk_core.backend import Backend
    from wlk_core.processor import OnlineProcessor
    from wlk_core.session.events import Event
    from wlk_serve.models.card import ModelCard
    from wlk_serve.models.diarizers import DiarizerSource
    from wlk_serve.models.stream import StreamSettings
    from wlk_serve.transcriptions.protocol import TranscriptionRequest
    from wlk_serve.transcriptions.recording import Result

__all__ = ["Service"]

T = TypeVar("T")

_LOGGER = logging.getLogger(__name__)

_MAX_BACKLOG_SECONDS = 900.0  # more than the largest append of 15 MiB at 8 kHz G.711 is refused
_MAX_LATENESS = 5.0  # p99 of the steps of sessions, in seconds after their deadline
# Threads, which exist while they are needed.
_MAX_FILES = 1000  # uploads may be slow
_MAX_OPENINGS = 100  # a stream may be opened at another machine; as many as sessions by default
_CANARY_SECONDS = 0.5  # of audio
_CANARY_TIMEOUT = 10.0  # seconds; a probe waits 15
# A recording is decoded in the engine's longest windows, and one such call may outlast the canary's
# timeout on a slow machine.  The canary waits behind it; the engine is busy and not broken, unless
# the call takes longer than any window does.
_MAX_CALL_SECONDS = 300.0
_MAX_STEP_SECONDS = 120.0  # of a session, whose windows are shorter; a longer one never returns


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
        owns_backend: whether `close` closes the backend too.

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
        owns_backend: bool = False,
    ) -> None:
        self._diarizers = diarizers
        delay = None if diarizers is None else diarizers.max_delay
        self.card = attrs.evolve(card.declared_by(backend), speaker_delay=delay)
        self._backend = backend
        self._owns_backend = owns_backend
        self._stream_options = dict(stream_options or {})
        count = workers or card.spec.max_concurrent_calls or os.cpu_count() or 1
        self.metrics = Metrics() if metrics is None else metrics
        self._turns = EngineTurns(count)
        self._scheduler = Scheduler(
            workers=count,
            same_thread=card.spec.thread_affinity == "same-thread",
            on_step=self.metrics.step_seconds.observe,
            turns=self._turns.sessions,
        )
        self._files = ThreadPoolExecutor(_MAX_FILES, "wlk-file")
        self._openers = ThreadPoolExecutor(_MAX_OPENINGS, "wlk-open")
        self._closers = ThreadPoolExecutor(2, "wlk-close")
        self._canary = asyncio.Lock()
        self._canary_result: tuple[float, str | None] = (-math.inf, None)  # when, the problem

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
        """Stop every session; waits for the threads."""
        self._scheduler.close()
        self._files.shutdown(cancel_futures=True)
        self._openers.shutdown(cancel_futures=True)
        self._closers.shutdown()
        if self._owns_backend:
            self._backend.close()

    @property
    def lateness(self) -> float:
        """The p99 lateness of the steps of sessions in seconds; 0 without sessions."""
        return (self._scheduler.lateness or 0.0) if len(self._scheduler) else 0.0

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

    def probe_model(self) -> None:
        """
        Leave out of the card what the model cannot do: its backend declares that of all models.

        Opens a stream for each language, so that a client is refused before it sends audio.
        """
        spec = self.card.spec
        if "language-forcing" not in spec.capabilities or hasattr(self._backend, "declared"):
            return  # nothing to choose, or a model at another machine
        languages = tuple(code for code in spec.languages if self._can("transcribe", code))
        missing = set() if self._can("translate", None) else {"translation"}
        spec = attrs.evolve(spec, languages=languages, capabilities=spec.capabilities - missing)
        self.card = attrs.evolve(self.card, spec=spec)

    def _can(self, task: str, language: str | None) -> bool:
        try:
            self._processor(task, language, self._stream_options).close()
        except OptionError:
            return False
        return True

    async def open_stream(
        self, settings: StreamSettings, on_events: Callable[[ServedStream, list[Event]], object]
    ) -> ServedStream:
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
        opened = await self._open(partial(self._new_stream, settings), close=ServedStream.close)
        with ExitStack() as stack:
            stack.callback(opened.close)
            opened.attachment = self._scheduler.attach(
                opened.session,
                lambda events: on_events(opened, events),
                call=loop.call_soon_threadsafe,
            )
            stack.pop_all()
        return opened

    async def _open(self, make: Callable[[], T], close: Callable[[T], object]) -> T:
        """
        Return what *make* returns in a thread; raises what it raises.

        A call that has begun cannot be interrupted: what it returns after its task was cancelled is
        given to *close*, which must not wait.
        """

        def close_result(done: Future[T]) -> None:
            if not done.cancelled() and done.exception() is None:
                close(done.result())

        def guarded() -> T:
            try:
                return make()
            except WLKError:
                raise
            except BaseException as error:
                raise as_failure(error) from error

        opening = self._openers.submit(guarded)
        try:
            return await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(close_result)
            raise

    def _new_stream(self, settings: StreamSettings) -> ServedStream:
        """Return a session that is not stepped yet; may block."""
        with ExitStack() as stack:
            processor = self._processor(
                "transcribe", settings.language, self._options(settings.prompt)
            )
            stack.enter_context(closing(processor))
            diarizer = None
            if self._diarizers is not None:
                diarizer = stack.enter_context(closing(self._diarizers.open()))
            gate = None
            if settings.leaves_out_pauses:
                times = {} if settings.gate is None else attrs.asdict(settings.gate)
                gate = SilenceGate(SileroDetector(), **times)
            session = Session(
                processor,
                gate=gate,
                diarizer=diarizer,
                encoding=settings.encoding,
                rate=settings.rate,
                max_backlog_seconds=_MAX_BACKLOG_SECONDS,
            )
            stack.pop_all()
        return ServedStream(
            session, processor, diarizer, lambda closed: self._close_later(closed.release)
        )

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

        def use_piece(seconds: float) -> None:
            if is_stopped.is_set():  # also where hours of silence bring no event
                raise StreamClosed("the client left")
            use(seconds)

        def run() -> None:
            try:
                for event in self._recording_events(file, request, use_piece):
                    publish(event)
                publish(None)
            except BaseException as error:  # noqa: BLE001 -- raised again in the event loop
                publish(as_failure(error))

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
        asked = time.monotonic()
        async with self._canary:
            ended, problem = self._canary_result
            if ended < asked and not (problem is None and asked - ended < max_age):
                problem = await self._canary_problem()
                self._canary_result = time.monotonic(), problem
        if problem is not None:  # also that of a canary for which this call waited
            raise RequestError(problem, status=503, code="not_ready")

    async def _canary_problem(self) -> str | None:
        """Return why the engine is not ready; anyone may ask, so that it names no cause."""
        try:
            async with asyncio.timeout(_CANARY_TIMEOUT):
                await self._run_canary()
        except TimeoutError:
            is_busy = 0 < self._turns.recordings.longest_seconds < _MAX_CALL_SECONDS
            return None if is_busy else "no engine call came through in time"
        except Exception:
            _LOGGER.warning("a session that checks the engine failed", exc_info=True)
            return "the engine failed; the log of the server has the cause"
        return None

    @property
    def is_hung(self) -> bool:
        """Whether an engine call has lasted so long that it will not return."""
        return (
            self._scheduler.longest_step_seconds > _MAX_STEP_SECONDS
            or self._turns.recordings.longest_seconds > _MAX_CALL_SECONDS
        )

    async def wait_for_canary(self) -> None:
        """Wait until no canary runs, as before `close`."""
        async with self._canary:
            pass

    async def _run_canary(self) -> None:
        processor = await self._open(
            partial(self._processor, "transcribe", self.card.language, self._stream_options),
            close=lambda opened: self._close_later(opened.close),
        )
        with ExitStack() as stack:
            stack.callback(self._close_later, processor.close)
            session = Session(processor)
            attachment = self._scheduler.attach(session)
            stack.callback(attachment.detach, wait=False)
            session.receive(np.zeros(round(_CANARY_SECONDS * SAMPLE_RATE), dtype=np.float32))
            session.end_audio()
            attachment.notify()
            async for event in attachment.events():
                if isinstance(event, Failure) and event.is_final:
                    raise event.error

    def _processor(
        self, task: str, language: str | None, options: Mapping[str, Any]
    ) -> OnlineProcessor:
        return self._backend.create_processor(language=language, task=task, **options)

    def _options(self, prompt: str | None) -> dict[str, Any]:
        return self._stream_options | ({} if prompt is None else {"prompt": prompt})

    def _close_later(self, close: Callable[[], object]) -> None:
        """Call *close* in a thread, and log what it raises: nothing waits for it."""
        self._closers.submit(close).add_done_callback(_log_failure)


def _log_failure(closing: Future[object]) -> None:
    error = closing.exception()
    if error is not None:
        _LOGGER.error("a session was not closed properly", exc_info=error)
