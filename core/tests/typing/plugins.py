"""
The API for authors as type checkers see it: checked by ``mypy --strict``, never run.

Each function is a use that must type-check as it stands; `assert_type` pins what a call returns.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, assert_type

import attrs
import numpy as np

from wlk_core import Event, Transcription, load_backend
from wlk_core.plugins import (
    Backend,
    BackendSpec,
    EngineCalls,
    Hypothesis,
    LoadedBackend,
    LocalAgreementRecognizer,
    OnlineStream,
    Option,
    Recognizer,
    StreamConfig,
    Transcriber,
    Word,
    hookimpl,
    standard_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


class Engine:
    """A loaded model."""

    def transcribe(
        self, audio: NDArray[np.float32], *, prompt: str, language: str | None, task: str = ""
    ) -> Hypothesis:
        """Return one word."""
        del audio, prompt, language, task
        return Hypothesis(words=(Word(0.0, 0.1, " word"),))


def open_stream(
    engine: Engine, config: StreamConfig, calls: EngineCalls
) -> Callable[[], Recognizer]:
    """Pass a wrapped engine call to a recognizer, partial or not."""
    plain: Transcriber = calls.wrap(engine.transcribe)
    chosen = calls.wrap(partial(engine.transcribe, task=config.task))
    tick: float = config.options["tick_seconds"]
    return partial(
        LocalAgreementRecognizer,
        plain if config.policy is None else chosen,
        language=config.language,
        tick_seconds=tick,
    )


def warmup(engine: Engine, calls: EngineCalls) -> None:
    """Call a wrapped function with its own arguments, and get its own result."""
    silence = np.zeros(16_000, dtype=np.float32)
    result = calls.wrap(engine.transcribe)(silence, prompt="", language=None)
    assert_type(result, Hypothesis)


def load(spec: BackendSpec, model: str | None, **options: Any) -> LoadedBackend[Engine]:
    """Return a loaded backend of an engine, which is a Backend."""
    del model, options
    loaded = LoadedBackend(spec, Engine(), open_stream=open_stream, warmup=warmup)
    assert_type(loaded, LoadedBackend[Engine])
    assert_type(loaded.engine, Engine)
    assert_type(loaded.engine_calls.count, int)
    backend: Backend = loaded
    with backend as entered:
        assert_type(entered, Backend)
    return loaded


SPEC = BackendSpec(
    name="toy",
    api=1,
    summary="a toy",
    load="wlk_toy.backend:load",
    options=(
        standard_options.device("cpu"),
        attrs.evolve(standard_options.TICK_SECONDS, default=2.0),
        Option(name="loudness", type=float, default=0.1, scope="stream"),
    ),
    capabilities=("hypothesis",),
)


@hookimpl
def wlk_backends() -> Iterable[BackendSpec]:
    """Return the declarations; the decorator keeps the signature."""
    return [SPEC]


def use_hook() -> None:
    """Call an implementation of the hook as the function it is."""
    assert_type(wlk_backends(), Iterable[BackendSpec])


def use_backend(chunks: list[NDArray[np.float32]]) -> None:
    """Get streams, transcriptions and events from any backend."""
    with load_backend("toy", device="cpu") as backend:
        assert_type(backend.create_processor(language="en", loudness=0.2), OnlineStream)
        assert_type(backend.transcribe("talk.flac", language="en"), Transcription)
        assert_type(backend.transcribe(chunks[0], vad=False), Transcription)
        assert_type(backend.stream(chunks), Generator[Event])
