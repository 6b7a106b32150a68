"""The voxtral-mlx backend: load a model on MLX and open streams on it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from wlk_core import BackendUnavailable, ModelNotFoundError
from wlk_core.models import locate
from wlk_voxtral.backend import DelayedBackend
from wlk_voxtral_mlx.checkpoint import read_checkpoint
from wlk_voxtral_mlx.commands import commands_of
from wlk_voxtral_mlx.engine import VoxtralEngine
from wlk_voxtral_mlx.memory import require_memory
from wlk_voxtral_mlx.names import layout_of
from wlk_voxtral_mlx.plugin import VOXTRAL_MLX
from wlk_voxtral_mlx.voxmlx_model import load_voxmlx, require_voxmlx
from wlk_voxtral_mlx.weights import build, read_tensors

if TYPE_CHECKING:
    from wlk_voxtral_mlx.shape import Shape

__all__ = ["VoxtralBackend"]

logger = logging.getLogger(__name__)


class VoxtralBackend(DelayedBackend[VoxtralEngine]):
    """A Voxtral Realtime model shared by any number of streams."""

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
        shape, told = read_checkpoint(directory, name=name)
        commands = commands_of(device)
        wanted = dtype or told.dtype
        with commands.turn():
            network = _load(engine, directory, shape, getattr(mx, wanted) if wanted else None)
        logger.info("%s runs on %s, engine %s", name, device, engine)
        runs = VoxtralEngine(
            network, shape, tekken=told.tekken, log_mel=told.log_mel, commands=commands
        )
        return cls(VOXTRAL_MLX, runs, told)


def _load(engine: str, directory: Path, shape: Shape, dtype: mx.Dtype | None) -> Any:
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
        return build(tensors, shape, dtype=dtype)
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
