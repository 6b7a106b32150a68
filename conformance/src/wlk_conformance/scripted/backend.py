"""ScriptedBackend: streams of every shape over the scripted engine, with every seam for tests."""

from __future__ import annotations

from functools import wraps
import threading
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

import attrs
import numpy as np

from wlk_conformance.scripted.alignment import BUFFER_SECONDS, FRAME_SAMPLES, POLICY
from wlk_conformance.scripted.engine import DIGIT_WORDS, ScriptedEngine
from wlk_conformance.scripted.native import NativeRecognizer
from wlk_conformance.scripted.plugin import SCRIPTED_SPEC
from wlk_core.errors import OptionError, StreamClosed
from wlk_core.online import AlignAttRecognizer, LocalAgreementRecognizer, OnlineStream
from wlk_core.testing.coded_audio import CELL_SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from wlk_core.backend import BackendSpec
    from wlk_core.online import Recognizer

__all__ = ["EngineFault", "ScriptedBackend"]

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class EngineFault(RuntimeError):  # noqa: N818 -- requested by a test, not a mistake
    """A fault that a test requested of the scripted engine."""


@attrs.define
class ScriptedBackend:
    """
    A backend without a model: its engine reads coded audio, see ScriptedEngine.

    The stream option `policy` chooses one of the shapes that recognizers have: local-agreement,
    alignatt or native.  `fail_at` names engine calls, counted from 1 over all streams, that raise
    EngineFault instead of answering; `before_call` runs before each of them.
    """

    vocabulary: Sequence[str] = DIGIT_WORDS
    tick_seconds: float = 1.0
    fail_at: frozenset[int] = attrs.field(default=frozenset(), converter=frozenset)
    changes_mind: bool = attrs.field(default=False, kw_only=True)
    before_call: Callable[[], None] | None = attrs.field(default=None, kw_only=True)
    calls: int = attrs.field(default=0, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)

    @property
    def spec(self) -> BackendSpec:
        """The declaration this backend keeps to."""
        return SCRIPTED_SPEC

    @property
    def engine(self) -> ScriptedEngine:
        """The engine, which reads the vocabulary as it is now."""
        return ScriptedEngine(self.vocabulary, changes_mind=self.changes_mind)

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineStream:
        """Return a stream with a recognizer of the `policy` given over the scripted engine."""
        if self._is_closed:
            raise StreamClosed("the backend is closed; load it again")
        self.spec.check_language(language)
        self.spec.check_task(task)
        chosen = self.spec.stream_options(options)
        tick, policy = chosen["tick_seconds"], chosen["policy"]
        if policy == "native" and tick is not None:
            raise OptionError(
                "scripted: with policy native every cell of 80 ms is a step; leave tick_seconds out"
            )
        tick = self.tick_seconds if tick is None else tick
        engine = self.engine

        def make() -> Recognizer:
            if policy == "alignatt":
                return AlignAttRecognizer(
                    self._counted(engine.align),
                    policy=POLICY,
                    frame_samples=FRAME_SAMPLES,
                    language=language,
                    tick_seconds=tick,
                    buffer_seconds=BUFFER_SECONDS,
                )
            if policy == "native":
                return NativeRecognizer(self._counted(engine.decode_step), language=language)
            return LocalAgreementRecognizer(
                self._counted(engine.transcribe), language=language, tick_seconds=tick
            )

        return OnlineStream(make)

    def warmup(self) -> None:
        """Run the engine once on silence."""
        transcribe = self._counted(self.engine.transcribe)
        transcribe(np.zeros(CELL_SAMPLES, dtype=np.float32), prompt="", language=None)

    def close(self) -> None:
        """Refuse new streams."""
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _counted(self, call: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        """Count each engine call, hold it or let it fail where a test requested that."""

        @wraps(call)
        def counted(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            self._begin_call()
            return call(*args, **kwargs)

        return counted

    def _begin_call(self) -> None:
        if self.before_call is not None:
            self.before_call()
        with self._lock:
            self.calls += 1
            number = self.calls
        if number in self.fail_at:
            raise EngineFault(f"engine call {number} was scripted to fail")
