"""The backend voxtral-mlx: find a checkpoint, load it on MLX, open streams on it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx

from wlk_core import ModelNotFoundError
from wlk_core.models import locate
from wlk_voxtral.backend import VoxtralBackend
from wlk_voxtral.engine import VoxtralEngine
from wlk_voxtral.memory import MemoryCheck
from wlk_voxtral_mlx.checkpoint import read_checkpoint
from wlk_voxtral_mlx.mlx.commands import commands_of
from wlk_voxtral_mlx.mlx.memory import device_memory, weight_bytes
from wlk_voxtral_mlx.mlx.network import MlxNetwork
from wlk_voxtral_mlx.mlx.voxmlx_model import load_voxmlx, require_voxmlx
from wlk_voxtral_mlx.mlx.weight_names import layout_of
from wlk_voxtral_mlx.mlx.weights import WeightError, build_model, read_tensors

if TYPE_CHECKING:
    from wlk_core import Backend, BackendSpec
    from wlk_voxtral_mlx.checkpoint import ModelConfig

__all__ = ["load"]

DIGITS = Path(__file__).parents[1] / "digits"

logger = logging.getLogger(__name__)


def load(
    spec: BackendSpec,
    model: str | None,
    *,
    engine: str = "native",
    device: str = "auto",
    dtype: str = "auto",
    cache_dir: str | None = None,
) -> Backend:
    """
    Find *model* and load it.

    With `dtype` "auto" the checkpoint decides, else weights keep the type they are stored in.

    Raises:
        ModelNotFoundError: the model is absent, or no Voxtral Realtime model.
        BackendUnavailable: the device or voxmlx is absent, or memory is short.

    """
    name = model or str(spec.default_model)
    directory = locate(name, spec=spec, bundled={"digits": DIGITS}, cache_dir=cache_dir, needs=())
    config, settings = read_checkpoint(directory, name=name)
    commands = commands_of(device)
    if engine == "voxmlx":
        require_voxmlx()
    if dtype == "auto":
        dtype = settings.dtype or ""
    with commands.turn():
        loaded = _load_model(engine, directory, config, getattr(mx, dtype) if dtype else None)
    logger.info("%s runs on %s, engine %s", name, device, engine)
    network = MlxNetwork(loaded, config, eos_id=settings.tokenizer.eos_id, commands=commands)
    return VoxtralBackend(spec, VoxtralEngine(network, settings))


def _load_model(engine: str, directory: Path, config: ModelConfig, dtype: mx.Dtype | None) -> Any:
    try:
        tensors = read_tensors(directory)
    except WeightError as error:
        raise ModelNotFoundError(
            f"the weights in {directory} cannot be read: {error}; pull the model again"
        ) from error
    layout = layout_of(list(tensors))
    memory = MemoryCheck(
        directory=directory,
        needed=sum(weight_bytes(tensor, dtype) for tensor in tensors.values()),
        available=device_memory(),
        device="the device",
        dtype="its own types" if dtype is None else str(dtype).removeprefix("mlx.core."),
        remedy="a quantized model such as mini-4bit",
    )
    memory.require()
    try:
        if engine == "voxmlx":
            return load_voxmlx(directory, layout, dtype=dtype)
        return build_model(tensors, config, dtype=dtype)
    except WeightError as error:
        raise ModelNotFoundError(
            f"{directory} is in the {layout or 'no known'} layout and could not be loaded: "
            f"{error}; pull the model again"
        ) from error
    except MemoryError as error:
        raise memory.error() from error
