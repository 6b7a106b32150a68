"""A loaded model: the part that all backends have in common, put together with an engine."""

from __future__ import annotations

from functools import partial
import logging
from operator import itemgetter
import threading
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import attrs

from wlk_core.errors import StreamClosed
from wlk_core.online.engine_calls import EngineCalls
from wlk_core.online.engine_errors import engine_errors
from wlk_core.online.owner_process import OwnerProcess
from wlk_core.online.stream import OnlineStream
from wlk_core.online.tick_choice import PROBE_SECONDS, measure_step, smallest_tick
from wlk_core.options import AUTO

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterable,
        Callable,
        Generator,
        Iterable,
        Mapping,
    )
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

    from wlk_core.audio.source import AudioPath
    from wlk_core.backend import BackendSpec
    from wlk_core.online.recognizer import Recognizer
    from wlk_core.session import Event, Transcription
    from wlk_core.vad import GateParameters

__all__ = ["LoadedBackend", "StreamConfig"]

E = TypeVar("E")

TICK = "tick_seconds"  # the option of that name
MAX_TICKS = 16  # choices that a backend keeps

_LOGGER = logging.getLogger(__name__)


def _read_only(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(values))


@attrs.frozen(kw_only=True)
class StreamConfig:
    """
    What `create_processor` was called with: checked against the spec, defaults filled in.

    Attributes:
        language: the code the stream is forced to; None to detect it.
        task: "transcribe" or "translate".
        policy: one of the spec's policies; None where the spec declares none.
        options: the value of every stream option by its name.

    """

    language: str | None = None
    task: str = "transcribe"
    policy: str | None = None
    options: Mapping[str, Any] = attrs.field(factory=dict, converter=_read_only)


class LoadedBackend(Generic[E]):
    """
    A Backend made of a spec, an engine and the functions that know the engine.

    It checks what a stream is opened with, opens streams, transcribes recordings and live audio
    with them, warms up, closes, and has the seams that tests need (`engine_calls`).  A plugin
    brings these functions:

    * ``open_stream(engine, config, calls)`` checks what only the model can decide, raising
      OptionError, and returns a function that makes a new Recognizer.  That function is called once
      for the stream and once for each of its resets.  Every function that runs the model goes
      through ``calls.wrap``, or through ``calls.wrap_batch`` where the spec declares the capability
      `batching`: the calls of streams that wait for the engine are then taken together.
    * ``warmup(engine, calls)`` runs the model once in the ways that streams run it.
    * ``release(engine)`` runs once, when the backend is closed.  Streams that are open keep the
      engine, so it must not take away what they use.

    `engine` is the loaded model and what runs it.  Nothing of a stream may be stored on it.
    """

    def __init__(
        self,
        spec: BackendSpec,
        engine: E,
        *,
        open_stream: Callable[[E, StreamConfig, EngineCalls], Callable[[], Recognizer]],
        warmup: Callable[[E, EngineCalls], None],
        release: Callable[[E], None] | None = None,
    ) -> None:
        self._spec = spec
        self._engine: E | None = engine
        self._engine_calls = EngineCalls(is_batching="batching" in spec.capabilities)
        self._open_stream = open_stream
        self._warmup = warmup
        self._release = release
        self._closing = threading.Lock()
        self._measuring = threading.Lock()
        self._ticks: dict[tuple[Any, ...], float] = {}  # chosen for tick_seconds=auto, by options
        self._owner = OwnerProcess()

    @property
    def spec(self) -> BackendSpec:
        """The declaration that the backend was loaded by."""
        return self._spec

    @property
    def engine(self) -> E:
        """
        The loaded model and what runs it.

        Raises:
            StreamClosed: the backend is closed.
            BackendError: this is a fork of the process that loaded the model.

        """
        self._owner.check()
        engine = self._engine
        if engine is None:
            raise StreamClosed("the backend is closed; load it again")
        return engine

    @property
    def engine_calls(self) -> EngineCalls:
        """The counter of engine calls, and the seams by which tests make them fail or wait."""
        return self._engine_calls

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineStream:
        """
        Return a new stream; see Backend.

        Raises:
            BackendError: the engine failed, or this is a fork of the process that loaded it.

        """
        return self._open_processor(self.engine, self._config(language, task, options))

    def _config(self, language: str | None, task: str, options: Mapping[str, Any]) -> StreamConfig:
        """Check what a stream is opened with; raises OptionError."""
        self._spec.check_language(language)
        self._spec.check_task(task)
        values = self._spec.stream_options(options)
        return StreamConfig(
            language=language, task=task, policy=values.get("policy"), options=values
        )

    def _open_processor(self, engine: E, config: StreamConfig) -> OnlineStream:
        """Return a new stream; may block while the engine, or another machine, works."""
        with engine_errors(f"{self._spec.name} could not open a stream"):
            if config.options.get(TICK) == AUTO:
                config = self._with_tick(engine, config)
            make_recognizer = self._open_stream(engine, config, self._engine_calls)
        return OnlineStream(make_recognizer)

    def _with_tick(self, engine: E, config: StreamConfig) -> StreamConfig:
        """
        Return *config* with the tick that ``auto`` stands for.

        It is measured once for the same options, so that streams of one backend have equal ticks,
        and a loaded machine does not make later ones slower.
        """
        probe = attrs.evolve(config, options={**config.options, TICK: PROBE_SECONDS})
        key = (config.language, config.task, *sorted(probe.options.items(), key=itemgetter(0)))
        with self._measuring:
            tick = self._ticks.get(key)
            if tick is None:
                cost = measure_step(self._open_stream(engine, probe, self._engine_calls))
                tick = smallest_tick(cost, policy=config.policy)
                if len(self._ticks) >= MAX_TICKS:
                    self._ticks.clear()
                self._ticks[key] = tick
                _LOGGER.info(
                    "%s: tick_seconds=auto is %g s, because a step takes %.3f s",
                    self._spec.name,
                    tick,
                    cost,
                )
        return attrs.evolve(config, options={**config.options, TICK: tick})

    def transcribe(
        self,
        audio: AudioPath | NDArray[np.float32],
        *,
        language: str | None = None,
        task: str = "transcribe",
        vad: bool | GateParameters = True,
        chunk_seconds: float = 1.0,
        **options: Any,
    ) -> Transcription:
        """Transcribe a whole recording: a file, or float32[n] at 16 kHz; see Backend."""
        from wlk_core.session import transcribe  # noqa: PLC0415 -- streams do without

        options = self._spec.recording_options(options)
        stream = self.create_processor(language=language, task=task, **options)
        return transcribe(stream, audio, language=language, vad=vad, chunk_seconds=chunk_seconds)

    def stream(
        self,
        chunks: Iterable[NDArray[np.float32]],
        *,
        language: str | None = None,
        task: str = "transcribe",
        vad: bool | GateParameters = True,
        chunk_seconds: float = 1.0,
        **options: Any,
    ) -> Generator[Event]:
        """Transcribe chunks of float32[n] at 16 kHz and yield events; see Backend."""
        from wlk_core.session import stream  # noqa: PLC0415 -- streams do without

        processor = self.create_processor(language=language, task=task, **options)
        return stream(processor, chunks, vad=vad, chunk_seconds=chunk_seconds)

    async def atranscribe(
        self,
        audio: AudioPath | NDArray[np.float32],
        *,
        language: str | None = None,
        task: str = "transcribe",
        vad: bool | GateParameters = True,
        chunk_seconds: float = 1.0,
        **options: Any,
    ) -> Transcription:
        """Transcribe a whole recording without blocking the event loop; see Backend."""
        from wlk_core.session import atranscribe  # noqa: PLC0415 -- streams do without

        options = self._spec.recording_options(options)
        opening = partial(self._open_processor, self.engine, self._config(language, task, options))
        return await atranscribe(
            opening, audio, language=language, vad=vad, chunk_seconds=chunk_seconds
        )

    def astream(
        self,
        chunks: AsyncIterable[NDArray[np.float32]] | Iterable[NDArray[np.float32]],
        *,
        language: str | None = None,
        task: str = "transcribe",
        vad: bool | GateParameters = True,
        chunk_seconds: float = 1.0,
        **options: Any,
    ) -> AsyncGenerator[Event]:
        """Transcribe chunks without blocking the event loop; see Backend."""
        from wlk_core.session import astream  # noqa: PLC0415 -- streams do without

        opening = partial(self._open_processor, self.engine, self._config(language, task, options))
        return astream(opening, chunks, vad=vad, chunk_seconds=chunk_seconds)

    def warmup(self) -> None:
        """
        Run the model once so that the first stream does not pay for it; leaves no trace.

        Raises:
            StreamClosed: the backend is closed.  What the engine raises is passed on.

        """
        self._warmup(self.engine, self._engine_calls)

    def close(self) -> None:
        """Release the model; streams that are open keep it until they are closed."""
        if not self._owner.is_current:
            return  # the model is the owner's
        with self._closing:
            engine, self._engine = self._engine, None
        if engine is not None and self._release is not None:
            self._release(engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
