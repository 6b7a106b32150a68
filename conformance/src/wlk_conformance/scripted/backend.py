"""ScriptedBackend: streams of every shape over the scripted engine."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np

from wlk_conformance.engine_faults import EngineFaults
from wlk_conformance.scripted.engine import (
    BUFFER_SECONDS,
    DIGIT_WORDS,
    FRAME_SAMPLES,
    POLICY,
    ScriptedEngine,
)
from wlk_conformance.scripted.native import NativeRecognizer, cut_step
from wlk_conformance.scripted.plugin import SCRIPTED_SPEC
from wlk_conformance.testing import CELL_SAMPLES
from wlk_core.plugins import (
    AlignAttRecognizer,
    LoadedBackend,
    LocalAgreementRecognizer,
    LongFormRecognizer,
    ModelNotFoundError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from wlk_core.plugins import BackendSpec, EngineCalls, Recognizer, StreamConfig

P = ParamSpec("P")
R = TypeVar("R")


class ScriptedBackend(LoadedBackend[ScriptedEngine]):
    """
    A backend without a model: its engine reads coded audio, see ScriptedEngine.

    The stream option `policy` chooses one of the shapes that recognizers have: local-agreement,
    alignatt, native or long-form.  `fail_before` names the engine calls that fail, counted from 1
    over all streams; see EngineFaults.
    """

    def __init__(
        self,
        spec: BackendSpec = SCRIPTED_SPEC,
        *,
        vocabulary: Sequence[str] = DIGIT_WORDS,
        fail_before: Collection[int] = (),
    ) -> None:
        engine = ScriptedEngine(vocabulary)
        super().__init__(spec, engine, open_stream=open_stream, warmup=_warmup)
        if fail_before:
            EngineFaults.of(self.engine_calls).fail_before = frozenset(fail_before)

    @property
    def vocabulary(self) -> Sequence[str]:
        """The words of the engine; see wlk_conformance.SupportsCodedAudio."""
        return self.engine.vocabulary

    @vocabulary.setter
    def vocabulary(self, words: Sequence[str]) -> None:
        self.engine.vocabulary = words

    @property
    def habits(self) -> frozenset[str]:
        """The habits of models that the engine imitates; see wlk_conformance.SupportsHabits."""
        return self.engine.habits

    @habits.setter
    def habits(self, habits: frozenset[str]) -> None:
        self.engine.habits = habits


def load(spec: BackendSpec, model: str | None) -> ScriptedBackend:
    """
    Return the scripted backend.

    Raises:
        ModelNotFoundError: *model* is not its only one.

    """
    if model not in (None, "digits"):
        raise ModelNotFoundError(
            f"the scripted backend has one model, digits; got {model!r}; "
            "leave it out, or use: wlk-conformance scripted --model digits"
        )
    return ScriptedBackend(spec)


def open_stream(
    engine: ScriptedEngine, config: StreamConfig, calls: EngineCalls
) -> Callable[[], Recognizer]:
    """Return a function that makes the recognizer of the policy; see LoadedBackend."""
    language = config.language
    if config.policy == "native":
        decode = _engine_call(engine, calls, engine.decode_step, cut=cut_step)
        return partial(NativeRecognizer, decode, language=language)
    tick_seconds = config.options["tick_seconds"]
    if config.policy == "alignatt":
        return partial(
            AlignAttRecognizer,
            _engine_call(engine, calls, engine.align),
            policy=POLICY,
            frame_samples=FRAME_SAMPLES,
            language=language,
            tick_seconds=tick_seconds,
            buffer_seconds=BUFFER_SECONDS,
        )
    transcribe = _engine_call(engine, calls, engine.transcribe)
    if config.policy == "long-form":
        return partial(LongFormRecognizer, transcribe, language=language)
    return partial(
        LocalAgreementRecognizer,
        transcribe,
        language=language,
        tick_seconds=tick_seconds,
    )


def _engine_call(
    engine: ScriptedEngine,
    calls: EngineCalls,
    function: Callable[P, R],
    *,
    cut: Callable[[R, float], R] | None = None,
) -> Callable[P, R]:
    """
    Return *function* as an engine call.

    Where the spec declares batching, calls of several streams are taken together.
    """
    if not calls.is_batching:
        return calls.wrap(function, cut=cut)
    answer: Callable[[Callable[[], R]], R] = calls.wrap_batch(engine.run, cut=cut)

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return answer(partial(function, *args, **kwargs))

    return call


def _warmup(engine: ScriptedEngine, calls: EngineCalls) -> None:
    silence = np.zeros(CELL_SAMPLES, dtype=np.float32)
    _engine_call(engine, calls, engine.transcribe)(silence, prompt="", language=None)
