"""Turn a loaded Nemotron model into a backend, which builds a recognizer for each stream."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np

from wlk_core.plugins import LoadedBackend
from wlk_nemotron.engine.recognizer import nemotron_recognizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wlk_core.plugins import BackendSpec, EngineCalls, Recognizer, StreamConfig
    from wlk_nemotron.checkpoint import CheckpointConfig
    from wlk_nemotron.engine.recognizer import ChunkAnswer, ChunkRequest


class Engine(Protocol):
    """A loaded model that any number of streams share; their state is in their requests."""

    @property
    def checkpoint(self) -> CheckpointConfig:
        """What the checkpoint declares."""
        ...

    def decode_batch(self, requests: Sequence[ChunkRequest]) -> Sequence[ChunkAnswer]:
        """Decode the next chunks of several streams; after an error they can be requested again."""
        ...


def loaded_backend(spec: BackendSpec, engine: Engine) -> LoadedBackend[Engine]:
    """Return the backend of *spec* around a loaded model."""
    return LoadedBackend(spec, engine, open_stream=_open_stream, warmup=_warmup)


def _open_stream(
    engine: Engine, config: StreamConfig, calls: EngineCalls
) -> Callable[[], Recognizer]:
    """Return a function that creates recognizers; raises OptionError for an untrained option."""
    checkpoint = engine.checkpoint
    checkpoint.prompt(config.language)  # refuses an untrained language before the first audio
    return partial(
        nemotron_recognizer,
        calls.wrap_batch(engine.decode_batch, cut=_cut),
        checkpoint=checkpoint,
        chunk_frames=checkpoint.chunk_frames(config.options["look_ahead_ms"]),
        language=config.language,
    )


def _cut(answer: ChunkAnswer, share: float) -> ChunkAnswer:
    """Return an answer with only the first *share* of its tokens."""
    tokens, state, work = answer
    return tokens[: int(share * len(tokens))], state, work


def _warmup(engine: Engine, calls: EngineCalls) -> None:
    """Decode a chunk of silence."""
    checkpoint = engine.checkpoint
    recognizer = nemotron_recognizer(
        calls.wrap_batch(engine.decode_batch),
        checkpoint=checkpoint,
        chunk_frames=checkpoint.look_aheads[0],
        language=None,
    )
    recognizer.feed(np.zeros(1, dtype=np.float32))
    recognizer.step(is_last=True)
