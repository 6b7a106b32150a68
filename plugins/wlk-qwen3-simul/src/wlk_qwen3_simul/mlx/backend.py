"""Load a checkpoint on MLX as the qwen3-mlx-simul backend."""

from __future__ import annotations

from functools import partial
import logging
from typing import TYPE_CHECKING

from wlk_core.plugins import locate
from wlk_frameworks.mlx import choose_dtype, shared_stream
from wlk_qwen3_simul.backend import loaded_backend
from wlk_qwen3_simul.checkpoint import BUNDLED, Checkpoint
from wlk_qwen3_simul.mlx.checkpoint import is_quantized, load_model
from wlk_qwen3_simul.mlx.network import MlxNetwork

if TYPE_CHECKING:
    from wlk_core.plugins import BackendSpec, LoadedBackend
    from wlk_qwen3_simul.engine.engine import Engine

logger = logging.getLogger(__name__)
GPU_COMMAND = "pip install 'wlk-qwen3-simul[mlx-cuda]'"


def load(
    spec: BackendSpec,
    model: str,
    *,
    device: str,
    dtype: str,
    alignment_heads: str | None,
    cache_dir: str | None,
) -> LoadedBackend[Engine]:
    """
    Find *model* and load it.

    Raises:
        ModelNotFoundError: the model is missing or damaged, or is not a Qwen3-ASR in the original
            layout.
        OptionError: the alignment heads are unknown or do not fit the model.
        BackendUnavailable: the machine has no such device.

    """
    stream = shared_stream(device, install_hint=GPU_COMMAND)
    directory = locate(model, spec=spec, bundled=BUNDLED, cache_dir=cache_dir)
    checkpoint = Checkpoint.read(directory, name=model)
    chosen = choose_dtype(dtype, is_gpu=stream.is_gpu, declared=checkpoint.dtype)
    if is_quantized(directory):
        stream.warn_of_quantized(checkpoint.name)
    loaded = stream.load(partial(load_model, directory, dtype=chosen))
    logger.info("%s runs in %s on %s", checkpoint.name, chosen, stream.device)
    return loaded_backend(
        spec,
        checkpoint,
        text_config=loaded.config.text_config,
        alignment_heads=alignment_heads,
        open_network=partial(MlxNetwork, loaded, stream=stream, dtype=chosen),
    )
