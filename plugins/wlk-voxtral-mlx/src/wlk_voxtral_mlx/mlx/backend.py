"""Find a checkpoint and load it on MLX as the voxtral-mlx backend."""

from __future__ import annotations

from functools import partial
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wlk_core.errors import ModelNotFoundError
from wlk_core.plugins import locate
from wlk_frameworks.memory import out_of_memory, require_memory
from wlk_frameworks.mlx import DTYPES, available_memory, shared_stream
from wlk_voxtral.backend import loaded_backend
from wlk_voxtral.engine import VoxtralEngine
from wlk_voxtral.weight_names import layout_of
from wlk_voxtral_mlx.checkpoint import read_checkpoint
from wlk_voxtral_mlx.mlx.network import MlxNetwork
from wlk_voxtral_mlx.mlx.voxmlx_model import load_voxmlx
from wlk_voxtral_mlx.mlx.weights import WeightError, build_model, read_tensors, weight_bytes

if TYPE_CHECKING:
    import mlx.core as mx

    from wlk_core.plugins import Backend, BackendSpec
    from wlk_voxtral_mlx.checkpoint import ModelConfig

BUNDLED = {"digits": Path(__file__).parents[1] / "digits"}
INSTALL_HINT = "pip install 'wlk-voxtral-mlx[cuda]'"
REMEDY = "choose a quantized model such as mini-4bit"

logger = logging.getLogger(__name__)


def load(
    spec: BackendSpec,
    model: str,
    *,
    engine: str = "native",
    device: str = "auto",
    dtype: str = "auto",
    cache_dir: str | None = None,
) -> Backend:
    """
    Find *model* and load it.

    `dtype` "auto" is the checkpoint's own; if it declares none, weights keep the type they are
    stored in.

    Raises:
        ModelNotFoundError: the model is missing, or not a Voxtral Realtime model.
        BackendUnavailable: the device or voxmlx is missing, or memory is short.

    """
    directory = locate(model, spec=spec, bundled=BUNDLED, cache_dir=cache_dir, needs=())
    config, checkpoint = read_checkpoint(directory, name=model)
    stream = shared_stream(device, install_hint=INSTALL_HINT)
    mlx_dtype = DTYPES.get(checkpoint.dtype or "") if dtype == "auto" else DTYPES[dtype]
    if config.quantization is not None:
        stream.warn_of_quantized(model)
    loaded = stream.load(partial(_load_model, engine, directory, config, mlx_dtype, stream.device))
    logger.info("%s runs on %s, engine %s", model, stream.device, engine)
    network = MlxNetwork(loaded, config, eos_id=checkpoint.tokenizer.eos_id, stream=stream)
    return loaded_backend(spec, VoxtralEngine(network, checkpoint))


def _load_model(
    engine: str, directory: Path, config: ModelConfig, dtype: mx.Dtype | None, device: str
) -> Any:
    try:
        tensors = read_tensors(directory)
    except WeightError as error:
        raise ModelNotFoundError(
            f"the weights in {directory} cannot be read: {error}; pull the model again"
        ) from error
    layout = layout_of(list(tensors))
    precision = "its own types" if dtype is None else str(dtype).removeprefix("mlx.core.")
    name = f"{directory} in {precision}"
    needed = sum(weight_bytes(tensor, dtype) for tensor in tensors.values())
    available = available_memory(device)
    require_memory(name, needed=needed, available=available, device=device, remedy=REMEDY)
    try:
        if engine == "voxmlx":
            return load_voxmlx(directory, layout, dtype=dtype)
        return build_model(tensors, config, dtype=dtype)
    except WeightError as error:
        raise ModelNotFoundError(
            f"{directory} (layout: {layout or 'unknown'}) could not be loaded: {error}; pull the "
            "model again"
        ) from error
    except MemoryError as error:
        raise out_of_memory(
            name, needed=needed, available=available, device=device, remedy=REMEDY
        ) from error
