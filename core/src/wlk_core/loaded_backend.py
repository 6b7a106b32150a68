"""A loaded model: what all backends have in common, built around a plugin's engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import attrs

from wlk_core.errors import StreamClosed
from wlk_core.online.engine_calls import EngineCalls, engine_errors
from wlk_core.online.stream import OnlineStream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wlk_core.backend import BackendSpec
    from wlk_core.online.recognizer import Recognizer

E = TypeVar("E")


@attrs.frozen(kw_only=True)
class StreamConfig:
    """The arguments of `create_processor`, checked against the spec, with defaults filled in."""

    language: str | None = None  #: the code of the forced language; None to detect it
    task: str = "transcribe"  #: or "translate"
    policy: str | None = None  #: one of the spec's policies; None if the spec declares none
    options: Mapping[str, Any] = attrs.field(factory=dict)  #: every stream option by name


class LoadedBackend(Generic[E]):
    """
    A Backend made of a spec, an engine and two functions that know the engine.

    It checks arguments, opens streams, warms up, closes, and counts its engine calls
    (`engine_calls`).  A plugin provides:

    * ``open_stream(engine, config, calls)`` checks what only the model can decide, raising
      OptionError, and returns a function that creates a Recognizer.  That function is called once
      for the stream and once for each reset.  Every function that runs the model must be wrapped by
      ``calls.wrap``, or by ``calls.wrap_batch`` if the spec declares the capability `batching`: the
      waiting calls of different streams are then batched.
    * ``warmup(engine, calls)`` runs the model once in each way that streams run it.
    """

    def __init__(
        self,
        spec: BackendSpec,
        engine: E,
        *,
        open_stream: Callable[[E, StreamConfig, EngineCalls], Callable[[], Recognizer]],
        warmup: Callable[[E, EngineCalls], None],
    ) -> None:
        self.spec = spec  #: the declaration it was loaded from
        self._engine: E | None = engine
        #: The engine calls of all streams: counted, and intercepted by tests.
        self.engine_calls = EngineCalls(is_batching="batching" in spec.capabilities)
        self._open_stream = open_stream
        self._warmup = warmup

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.spec.name}>"

    @property
    def engine(self) -> E:
        """The loaded model, which stores no stream state; raises StreamClosed once closed."""
        engine = self._engine
        if engine is None:
            raise StreamClosed("the backend is closed; load it again")
        return engine

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineStream:
        """Return a new stream; see Backend.  May wait for the engine; BackendError if it fails."""
        engine = self.engine
        self.spec.check_language(language)
        self.spec.check_task(task)
        values = self.spec.stream_options(options)
        config = StreamConfig(
            language=language, task=task, policy=values.get("policy"), options=values
        )
        with engine_errors(f"{self.spec.name} could not open a stream"):
            make_recognizer = self._open_stream(engine, config, self.engine_calls)
        return OnlineStream(make_recognizer)

    def warmup(self) -> None:
        """Run the model once; see Backend.  The engine's errors propagate unchanged."""
        self._warmup(self.engine, self.engine_calls)

    def close(self) -> None:
        """Release the model; open streams keep it until they are closed."""
        self._engine = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
