"""Share one loaded model among many clients: sockets, uploaded recordings and a canary."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
import logging
import math
import time
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import attrs
import numpy as np

from wlk_core.errors import OptionError, WLKError
from wlk_core.options import OptionValues
from wlk_core.processor import SAMPLE_RATE
from wlk_live.audio import decode_file
from wlk_live.language_choice import forced_language, language_arguments
from wlk_live.session import End, Failure, Session
from wlk_live.speakers import NamingDiarizer
from wlk_live.vad import silence_gate
from wlk_serve.blocking_work import BlockingWork
from wlk_serve.errors import RequestError, as_failure
from wlk_serve.models.served_stream import ServedStream
from wlk_serve.models.stream import RecordingSession
from wlk_serve.ops.metrics import Metrics
from wlk_serve.protocols.card import ModelCard
from wlk_serve.protocols.options import StreamOptions
from wlk_serve.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence

    from wlk_core.annotators import AnnotatorKind, TextFilter
    from wlk_core.backend import Backend
    from wlk_core.processor import OnlineProcessor
    from wlk_core.registry import Registry
    from wlk_live.config import Settings
    from wlk_live.filter_choice import FilterChoice
    from wlk_live.session.events import Event
    from wlk_live.translator_choice import TranslatorChoice
    from wlk_serve.protocols.options import TranscriptionRequest

T = TypeVar("T", bound=Any)
_LOGGER = logging.getLogger(__name__)
_MAX_BACKLOG_SECONDS = 900.0  # more audio is refused; reading from a socket pauses long before
_MAX_LATENESS = 5.0  # p99 lateness of steps in seconds, beyond which new sessions are refused
_MAX_OPENINGS = 100  # streams that are opened at once, if a backend waits for another machine
_MAX_UNREAD_STEPS = 64  # of a recording, until it waits for its client
_CANARY_SECONDS = 0.5  # of audio
_CANARY_TIMEOUT = 10.0  # seconds; health probes wait for 15
# A recording is decoded in the engine's longest windows, and on a slow machine one such call can
# outlast the timeout of a canary that waits behind it.  The engine is then busy and not broken,
# unless the call takes longer than any window could.
_MAX_CALL_SECONDS = 300.0
_MAX_STEP_SECONDS = 120.0  # for live sessions, whose windows are shorter; a longer step is hung


@contextmanager
def loaded_service(
    registry: Registry,
    settings: Settings,
    *,
    max_sessions: int,
    annotators: Mapping[AnnotatorKind, tuple[str, Mapping[str, str]]] | None = None,
    translation: TranslatorChoice | None = None,
    filters: FilterChoice | None = None,
    speaker_names: Sequence[str] = (),
    served_names: Sequence[str] = (),
) -> Iterator[Service]:
    """
    Load the model of *settings* and open its service for at most *max_sessions*.

    *annotators* has the names and options of a diarizer and a turn detector; *speaker_names* are
    those of the speakers whom the diarizer numbers.

    Raises:
        WLKError: the model or an annotator is not installed, or cannot be loaded.

    """
    card = ModelCard.of(settings.spec, settings.model, settings.language, served_names=served_names)
    loading_options, processor_options = settings.options
    if max_sessions > 1 and any(option.name == "cpu_threads" for option in settings.spec.options):
        # With one thread per call, the calls of several sessions run side by side: with tiny.en on
        # two cores, four sessions get their final words after 1.4 s instead of 6.6 s.
        loading_options = {"cpu_threads": 1, **loading_options}
    settings = attrs.evolve(settings, options=OptionValues(loading_options, processor_options))
    with ExitStack() as parts:
        # An annotator that cannot be loaded must fail before the model is loaded and the server is
        # ready.  This first one stays open, so that later ones share the model it has loaded.
        openers: dict[AnnotatorKind, Callable[..., Any]] = {}
        for kind, (name, chosen) in (annotators or {}).items():
            openers[kind] = partial(registry.load_annotator, kind, name, **chosen)
            first = parts.enter_context(_closing(openers[kind]()))
            if kind == "diarizer":
                card = attrs.evolve(card, speaker_delay=float(first.max_delay))
                openers[kind] = partial(_open_naming, openers[kind], speaker_names)
        card = attrs.evolve(card, detects_turns="turn-detector" in openers)
        if translation is not None:
            openers["translator"] = partial(translation.open, settings.spec)
            parts.enter_context(_closing(openers["translator"](settings.language)))
            card = attrs.evolve(card, translates_to=translation.language)
        if filters is not None:
            filters.open(parts, settings.spec, settings.language)
            card = attrs.evolve(card, filters=filters.specs)
        backend = parts.enter_context(settings.load(registry))
        service = Service(
            backend, card, processor_options=processor_options, openers=openers, filters=filters
        )
        parts.enter_context(closing(service))
        backend.warmup()
        service.probe_model()
        yield service


def _open_naming(open_diarizer: Callable[..., Any], names: Sequence[str]) -> NamingDiarizer:
    return NamingDiarizer(open_diarizer(), names)


class Service:
    """
    One loaded backend for many clients; `close` leaves the backend open.

    A scheduler steps the sessions, and steps uploaded recordings only while no session waits.
    Together they make at most as many concurrent engine calls as the backend declares.

    Args:
        backend: the loaded backend.
        card: describes it to clients.
        processor_options: options of `Backend.create_processor`, for every stream.
        openers: functions that open annotators, by kind; they may block.  Each session over a
            socket opens its own diarizer, turn detector and, on request, translator (from a
            language, None for the detected one); a recording opens a diarizer on request.
        filters: the text filters of sessions and recordings whose clients choose no others.

    """

    def __init__(
        self,
        backend: Backend,
        card: ModelCard,
        *,
        processor_options: Mapping[str, Any] | None = None,
        openers: Mapping[AnnotatorKind, Callable[..., Any]] | None = None,
        filters: FilterChoice | None = None,
    ) -> None:
        self._filters = filters
        self._annotator_openers = dict(openers or {})
        self.card = card.declared_by(backend)
        self._backend = backend
        self._processor_options = dict(processor_options or {})
        self.metrics = Metrics()
        self._scheduler = Scheduler(
            workers=card.spec.max_concurrent_calls,
            same_thread=card.spec.thread_affinity == "same-thread",
            on_step=self.metrics.step_seconds.observe,
        )
        self.metrics.lateness.set_function(lambda: self._scheduler.lateness)
        # A local model opens a stream in milliseconds; more threads would hold up the event loop.
        threads = 4 if card.spec.preference is not None else _MAX_OPENINGS
        self._opening_threads = ThreadPoolExecutor(threads, "wlk-open")
        self._closing_threads = ThreadPoolExecutor(2, "wlk-close")
        self.blocking_work = BlockingWork()
        self._canary = asyncio.Lock()
        self._canary_result: tuple[float, str | None] = (-math.inf, None)  # end time, problem

    def close(self) -> None:
        """Stop every session and wait for the threads."""
        self._scheduler.close()
        self._opening_threads.shutdown(cancel_futures=True)
        self._closing_threads.shutdown()

    def check_load(self) -> None:
        """Raise RequestError while steps of sessions end too late; clients may try again."""
        if (lateness := self._scheduler.lateness) > _MAX_LATENESS:
            raise RequestError(
                f"the running sessions are {lateness:.1f} s late; try again later",
                status=503,
                code="server_overloaded",
                retry_after=10,
            )

    def probe_model(self) -> None:
        """
        Remove from the card what this model cannot do; the spec covers all models of the backend.

        This opens a stream for each language, so that clients are refused before they send audio.
        """
        spec = self.card.spec
        if "language-forcing" not in spec.capabilities or hasattr(self._backend, "declared"):
            return  # no languages to choose from, or a model on another machine
        languages = tuple(code for code in spec.languages if self._can("transcribe", code))
        missing = set() if self._can("translate", None) else {"translation"}
        spec = attrs.evolve(spec, languages=languages, capabilities=spec.capabilities - missing)
        self.card = attrs.evolve(self.card, spec=spec)

    def _can(self, task: str, language: str | None) -> bool:
        with suppress(OptionError), ExitStack() as parts:
            self._processor(parts, task, language, self._processor_options)
            return True
        return False

    async def open_stream(
        self,
        options: StreamOptions,
        on_events: Callable[[ServedStream, list[Event]], object],
        *,
        after_step: Callable[[], object] = lambda: None,
        is_annotated: bool = True,
    ) -> ServedStream:
        """
        Open a session whose events are passed to *on_events* in the running event loop.

        *after_step* is called after each of its steps, in the thread that ran it.

        The backend opens its stream in a thread, because it may have to wait, for example for
        another server.  A cancelled caller leaves nothing open.

        Raises:
            OptionError: the backend refuses the language or the prompt.
            BackendError: the backend could not open a stream.
            StreamClosed: the service is closed.

        """

        def make(parts: ExitStack) -> Session:
            vad = (options.gate or True) if options.leaves_out_pauses else False
            has_turns = is_annotated and options.detects_turns
            processor = self._processor(
                parts, "transcribe", options.language, self._options_of(options)
            )
            return Session(
                processor,
                gate=silence_gate(vad),
                diarizer=self._annotator(parts, "diarizer") if is_annotated else None,
                turn_detector=self._annotator(parts, "turn-detector") if has_turns else None,
                translator=self._translator(parts, options),
                text_filters=self._text_filters(parts, options) if is_annotated else (),
                rate=options.rate,
                max_backlog_seconds=_MAX_BACKLOG_SECONDS,
                prepares_flush=True,
            )

        return await self._open(make, on_events, after_step=after_step)

    async def recognize(
        self,
        file: BinaryIO,
        request: TranscriptionRequest,
        use: Callable[[float], object],
        *,
        channel: int | None = None,
    ) -> AsyncGenerator[Event]:
        """
        Yield the events of a recording until its End; a failure is also an event.

        With *channel*, they are those of one channel, otherwise of the mean of all.

        *use* is called in another thread with the seconds of each decoded piece; it may raise
        RequestError.  Raises WLKError if the engine or the diarizer cannot be opened.
        """
        queue: asyncio.Queue[list[Event]] = asyncio.Queue()

        def make(parts: ExitStack) -> RecordingSession:
            options = self.card.spec.recording_options(self._options_of(request))
            session = Session(
                self._processor(parts, request.task, request.language, options),
                gate=silence_gate(),
                diarizer=self._annotator(parts, "diarizer") if request.has_speakers else None,
                text_filters=self._text_filters(parts, request)
                if request.task == "transcribe"
                else (),
            )
            pieces = parts.enter_context(closing(decode_file(file, channel=channel)))
            # If a client does not read its answer, decoding pauses: events do not pile up for it.
            return RecordingSession(session, pieces, use, lambda: queue.qsize() < _MAX_UNREAD_STEPS)

        stream = await self._open(
            make, lambda _stream, events: queue.put_nowait(events), is_background=True
        )
        event: Event | None = None
        try:
            while not isinstance(event, End):
                for event in await queue.get():
                    yield event
                stream.notify()  # there may be room again
        finally:
            # The caller closes the file next.  A task that is cancelled a second time stops waiting
            # here, but the shield keeps the release in the executor's queue.
            release = asyncio.get_running_loop().run_in_executor(None, stream.release)
            await asyncio.shield(release)

    async def _open(
        self,
        make: Callable[[ExitStack], Session | RecordingSession],
        on_events: Callable[[ServedStream, list[Event]], object],
        *,
        after_step: Callable[[], object] = lambda: None,
        is_background: bool = False,
    ) -> ServedStream:
        """Open the stream of the session that *make* creates; *make* gets a stack for its parts."""
        # A call of `make` cannot be interrupted: if this task is cancelled meanwhile, the stream is
        # closed as soon as it is open.
        opening = self._opening_threads.submit(self._create, make)
        try:
            stream = await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_result)
            raise
        loop = asyncio.get_running_loop()
        try:
            attachment = self._scheduler.attach(
                stream.session,
                lambda events: loop.call_soon_threadsafe(on_events, stream, _logged(events)),
                after_step=after_step,
                is_background=is_background,
            )
        except WLKError:
            stream.close()
            raise
        stream.notify = attachment.notify
        stream.parts.callback(attachment.detach)  # before the other parts are closed
        return stream

    def _create(self, make: Callable[[ExitStack], Session | RecordingSession]) -> ServedStream:
        try:
            with ExitStack() as parts:
                return ServedStream(make(parts), parts.pop_all(), self._close_later)
        except WLKError:
            raise
        except BaseException as error:
            raise as_failure(error) from error

    def _annotator(self, parts: ExitStack, kind: AnnotatorKind, *arguments: str | None) -> Any:
        opener = self._annotator_openers.get(kind)
        return None if opener is None else parts.enter_context(_closing(opener(*arguments)))

    def _text_filters(
        self, parts: ExitStack, request: StreamOptions | TranscriptionRequest
    ) -> list[TextFilter]:
        if self._filters is None:
            return []
        chosen = self._filters.changed(request.filters)
        return chosen.open(parts, self.card.spec, forced_language(request.language))

    def _translator(self, parts: ExitStack, options: StreamOptions) -> Any:
        if not options.translates:
            return None
        try:
            return self._annotator(parts, "translator", forced_language(options.language))
        except WLKError as error:  # such as an unknown language: the session still has its words
            _LOGGER.warning("a session is not translated: %s", error)
            return None

    async def check_canary(self, max_age: float) -> None:
        """
        Run a canary through the engine, unless one succeeded in the last *max_age* seconds.

        Raises:
            RequestError: the canary did not end in time, or it failed.

        """
        called = time.monotonic()
        async with self._canary:
            ended, problem = self._canary_result
            if ended < called and not (problem is None and called - ended < max_age):
                problem = await self._canary_problem()
                self._canary_result = time.monotonic(), problem
        if problem is not None:  # perhaps from a canary that another call has run meanwhile
            raise RequestError(problem, status=503, code="not_ready")

    async def _canary_problem(self) -> str | None:
        """Run a canary; return why the engine is not ready, without details: anyone may ask."""
        try:
            async with asyncio.timeout(_CANARY_TIMEOUT):
                await self._run_canary()
        except TimeoutError:
            is_busy = 0 < self._scheduler.longest_step(is_background=True) < _MAX_CALL_SECONDS
            return None if is_busy else "no engine call ended in time"
        except Exception:
            _LOGGER.warning("the canary session failed", exc_info=True)
            return "the engine failed; the server's log has the cause"
        return None

    @property
    def is_hung(self) -> bool:
        """Whether an engine call has lasted so long that it will never return."""
        return (
            self._scheduler.longest_step(is_background=False) > _MAX_STEP_SECONDS
            or self._scheduler.longest_step(is_background=True) > _MAX_CALL_SECONDS
        )

    async def _run_canary(self) -> None:
        queue: asyncio.Queue[list[Event]] = asyncio.Queue()
        options = StreamOptions(language=self.card.language, leaves_out_pauses=False)
        stream = await self.open_stream(
            options, lambda _stream, events: queue.put_nowait(events), is_annotated=False
        )
        event: Event | None = None
        try:
            stream.receive(np.zeros(round(_CANARY_SECONDS * SAMPLE_RATE), np.float32))
            stream.end_audio()
            while not isinstance(event, End):
                for event in await queue.get():
                    if isinstance(event, Failure) and event.is_final:
                        raise event.error
        finally:
            stream.close()

    def _processor(
        self, parts: ExitStack, task: str, language: str | None, options: Mapping[str, Any]
    ) -> OnlineProcessor:
        chosen: dict[str, Any] = {**options, **language_arguments(language)}
        try:
            processor = self._backend.create_processor(task=task, **chosen)
        except OptionError as error:
            # The search may take no keyterms, or the model cannot spell one.  A client's terms are
            # then left out, so that it still gets its words; an error in the operator's is raised.
            own = self._processor_options.get("keyterms")
            terms = chosen.pop("keyterms", None)
            if terms in {None, own}:
                raise
            chosen |= {} if own is None else {"keyterms": own}
            processor = self._backend.create_processor(task=task, **chosen)
            _LOGGER.warning("the keyterms of a client are left out: %s", error)
        return parts.enter_context(_closing(processor))

    def _options_of(self, request: StreamOptions | TranscriptionRequest) -> dict[str, Any]:
        """Return the options of the processor for *request*."""
        options = dict(self._processor_options)
        if request.prompt:
            options["prompt"] = request.prompt
        if request.keyterms:
            options["keyterms"] = request.keyterms
        return options

    def _close_later(self, close: Callable[[], object]) -> None:
        """Call *close* in a thread and log its error, because nothing waits for it."""
        self._closing_threads.submit(close).add_done_callback(_log_failure)


@contextmanager
def _closing(part: T) -> Iterator[T]:
    """Close *part*, a plugin's object, at the end; log what it raises: the words are complete."""
    try:
        yield part
    finally:
        try:
            part.close()
        except KeyboardInterrupt:
            raise
        except BaseException:
            _LOGGER.exception("%s was not closed properly", type(part).__name__)


def _logged(events: list[Event]) -> list[Event]:
    """Return *events*, and log why an annotator was switched off: clients may not be told."""
    for event in events:
        if isinstance(event, Failure) and event.annotator is not None:
            _LOGGER.warning("%s", event.error, exc_info=event.error)
    return events


def _close_result(opening: Future[ServedStream]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _log_failure(closing: Future[object]) -> None:
    error = closing.exception()
    if error is not None:
        _LOGGER.error("a session was not closed properly", exc_info=error)
