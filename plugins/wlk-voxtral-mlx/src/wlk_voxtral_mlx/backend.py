"""The voxtral-mlx backend: load a model on MLX and open streams on it."""

from __future__ import annotations

from functools import partial
import logging
from pathlib import Path
import threading
from typing import TYPE_CHECKING, Any, Self

import mlx.core as mx
import numpy as np

from wlk_core import (
    BackendUnavailable,
    DelayedRecognizer,
    ModelNotFoundError,
    OnlineStream,
    StreamClosed,
)
from wlk_core.models import locate
from wlk_voxtral_mlx.checkpoint import Checkpoint
from wlk_voxtral_mlx.commands import commands_of
from wlk_voxtral_mlx.engine import CELL_MARGIN, CELL_SAMPLES, VoxtralEngine
from wlk_voxtral_mlx.memory import require_memory
from wlk_voxtral_mlx.names import layout_of
from wlk_voxtral_mlx.plugin import VOXTRAL_MLX
from wlk_voxtral_mlx.voxmlx_model import load_voxmlx, require_voxmlx
from wlk_voxtral_mlx.weights import build, read_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from wlk_core import BackendSpec, Work
    from wlk_core.streaming import Choice
    from wlk_voxtral_mlx.engine import StreamState

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
        engine: str = "native",
        device: str = "auto",
        dtype: str | None = None,
        cache_dir: str | None = None,
    ) -> VoxtralBackend:
        """
        Find *model* and load it.

        Raises:
            ModelNotFoundError: it is not there, or is no Voxtral Realtime model.
            BackendUnavailable: the device or voxmlx is not to be had, or memory is short.

        """
        name = model or str(VOXTRAL_MLX.default_model)
        bundled = {"digits": Path(__file__).parent / "digits"}
        directory = locate(name, spec=VOXTRAL_MLX, bundled=bundled, cache_dir=cache_dir, needs=())
        checkpoint = Checkpoint.read(directory, name=name)
        commands = commands_of(device)
        wanted = dtype or checkpoint.dtype
        with commands.turn():
            network = _load(engine, checkpoint, getattr(mx, wanted) if wanted else None)
        logger.info("%s runs on %s, engine %s", name, device, engine)
        return cls(
            VoxtralEngine(
                network,
                checkpoint.shape,
                tekken=checkpoint.tekken,
                log_mel=checkpoint.log_mel,
                commands=commands,
            ),
            checkpoint,
        )

    @property
    def spec(self) -> BackendSpec:
        """The declaration this backend keeps to."""
        return VOXTRAL_MLX

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
        VOXTRAL_MLX.check_language(language)
        VOXTRAL_MLX.check_task(task)
        chosen = VOXTRAL_MLX.stream_options(options)
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


def _load(engine: str, checkpoint: Checkpoint, dtype: mx.Dtype | None) -> Any:
    directory = checkpoint.directory
    if engine == "voxmlx":
        require_voxmlx()
    try:
        tensors = read_tensors(directory)
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise ModelNotFoundError(
            f"the weights in {directory} cannot be read: {_first_line(error)}; pull the model again"
        ) from error
    layout = layout_of(list(tensors))
    require_memory(directory, tensors.values(), dtype)
    try:
        if engine == "voxmlx":
            return load_voxmlx(directory, layout, dtype=dtype)
        return build(tensors, checkpoint.shape, dtype=dtype)
    except ValueError as error:
        raise ModelNotFoundError(
            f"{directory} is in the {layout or 'no known'} layout and could not be loaded: "
            f"{_first_line(error)}; pull the model again"
        ) from error
    except (MemoryError, RuntimeError) as error:
        raise BackendUnavailable(
            f"{directory} could not be brought into memory: {_first_line(error)}; choose a "
            "quantized model such as mini-4bit"
        ) from error


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]).removesuffix(".") or type(error).__name__
