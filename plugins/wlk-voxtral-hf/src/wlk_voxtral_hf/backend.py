"""The voxtral-hf backend: load a model of transformers and open streams on it."""

from __future__ import annotations

from functools import partial
import logging
from pathlib import Path
import threading
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from wlk_core import DelayedRecognizer, OnlineStream, StreamClosed
from wlk_core.models import locate
from wlk_voxtral_hf.checkpoint import Checkpoint
from wlk_voxtral_hf.engine import CELL_MARGIN, CELL_SAMPLES, VoxtralEngine
from wlk_voxtral_hf.loading import device_of, load_network
from wlk_voxtral_hf.plugin import VOXTRAL_HF

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from wlk_core import BackendSpec, Work
    from wlk_core.streaming import Choice
    from wlk_voxtral_hf.state import StreamState

__all__ = ["VoxtralBackend"]

logger = logging.getLogger(__name__)


class VoxtralBackend:
    """
    A Voxtral Realtime model shared by any number of streams.

    `calls`, `fail_at` and `before_call` are the seams of wlk-conformance; nothing else sets them.
    """

    def __init__(self, engine: VoxtralEngine, checkpoint: Checkpoint) -> None:
        self._engine: VoxtralEngine | None = engine
        self._checkpoint = checkpoint
        self.calls = 0
        self.fail_at: frozenset[int] = frozenset()
        self.before_call: Callable[[], None] | None = None
        self._counting = threading.Lock()

    @classmethod
    def load(
        cls,
        model: str | None,
        *,
        device: str = "auto",
        dtype: str | None = None,
        cache_dir: str | None = None,
    ) -> VoxtralBackend:
        """
        Find *model* and load it.

        Raises:
            ModelNotFoundError: it is not there, or is no Voxtral Realtime model of transformers.
            BackendUnavailable: the device is not to be had, or has too little memory.

        """
        name = model or str(VOXTRAL_HF.default_model)
        bundled = {"digits": Path(__file__).parent / "digits"}
        directory = locate(name, spec=VOXTRAL_HF, bundled=bundled, cache_dir=cache_dir, needs=())
        checkpoint = Checkpoint.read(directory, name=name)
        place = device_of(device)
        wanted = dtype or checkpoint.dtype or ("float32" if place == "cpu" else "bfloat16")
        network = load_network(directory, place, getattr(torch, wanted))
        logger.info("%s runs in %s on %s", name, wanted, place)
        engine = VoxtralEngine(network, tekken=checkpoint.tekken, log_mel=checkpoint.log_mel)
        return cls(engine, checkpoint)

    @property
    def spec(self) -> BackendSpec:
        """The declaration this backend keeps to."""
        return VOXTRAL_HF

    @property
    def engine(self) -> VoxtralEngine:
        """The model and what runs it."""
        if self._engine is None:
            raise StreamClosed("the backend is closed; load it again")
        return self._engine

    def create_processor(
        self, *, language: str | None = None, task: str = "transcribe", **options: Any
    ) -> OnlineStream:
        """Return a new stream; see Backend."""
        engine = self.engine
        VOXTRAL_HF.check_language(language)
        VOXTRAL_HF.check_task(task)
        chosen = VOXTRAL_HF.stream_options(options)
        delay = self._checkpoint.delay_steps(chosen["delay_ms"])
        decode = partial(self._decode, engine, delay_steps=delay, draft_steps=chosen["draft_steps"])
        return OnlineStream(
            lambda: DelayedRecognizer(
                decode,
                tekken=self._checkpoint.tekken,
                delay_steps=delay,
                log_mel=self._checkpoint.log_mel,
            )
        )

    def warmup(self) -> None:
        """Run the model once on a step of silence."""
        samples = np.zeros(CELL_SAMPLES + CELL_MARGIN, dtype=np.float32)
        self._decode(
            self.engine,
            self._checkpoint.log_mel(samples),
            None,
            delay_steps=self._checkpoint.tekken.delay_steps,
            draft_steps=1,
        )

    def close(self) -> None:
        """Let go of the model; streams that are open keep it until they are closed."""
        self._engine = None

    def _decode(
        self,
        engine: VoxtralEngine,
        mel: NDArray[np.float32],
        state: StreamState | None,
        *,
        delay_steps: int,
        draft_steps: int,
    ) -> tuple[Sequence[Choice], StreamState, Work]:
        """Call the engine, held before or failing where a test asked for that."""
        if self.before_call is not None:
            self.before_call()
        with self._counting:
            self.calls += 1
            call = self.calls
        if call in self.fail_at:
            raise RuntimeError(f"engine call {call} was asked to fail")
        return engine.decode(mel, state, delay_steps=delay_steps, draft_steps=draft_steps)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
