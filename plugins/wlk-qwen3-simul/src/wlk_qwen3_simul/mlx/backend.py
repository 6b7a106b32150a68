"""The qwen3-mlx-simul backend: load a checkpoint and run it on MLX."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from wlk_core.frameworks.mlx import choose_dtype, shared_stream
from wlk_qwen3_simul.backend import Loading
from wlk_qwen3_simul.mlx.checkpoint import check_directory, load_model
from wlk_qwen3_simul.mlx.network import MlxNetwork

if TYPE_CHECKING:
    from wlk_core.plugins import BackendSpec, LoadedBackend
    from wlk_qwen3_simul.engine.engine import Engine

__all__ = ["load"]

GPU_COMMAND = "pip install 'wlk-qwen3-simul[mlx-cuda]'"


def load(
    spec: BackendSpec,
    model: str | None,
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
    loading = Loading(spec, model, cache_dir=cache_dir, check_directory=check_directory)
    declared = loading.checkpoint.compute_type
    chosen = choose_dtype(dtype, is_gpu=stream.is_gpu, declared=declared)
    loaded = stream.load(partial(load_model, loading.directory, dtype=chosen))
    heads = loading.find_heads(alignment_heads, loaded.config.text_config)
    network = MlxNetwork(loaded, alignment_heads=heads.pairs, stream=stream, dtype=chosen)
    return loading.backend(network, heads, dtype=chosen, device=stream.device)
