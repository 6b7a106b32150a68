"""The qwen3-mlx-simul backend: load a checkpoint and run it on MLX."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from wlk_core.frameworks.mlx import choose_dtype, shared_stream
from wlk_core.plugins import LoadedBackend, locate
from wlk_qwen3_simul.backend import open_stream, warmup
from wlk_qwen3_simul.checkpoint import BUNDLED, Checkpoint
from wlk_qwen3_simul.engine.engine import Engine
from wlk_qwen3_simul.engine.find_heads import find_heads
from wlk_qwen3_simul.engine.vocabulary import Vocabulary
from wlk_qwen3_simul.mlx.checkpoint import check_directory, load_model
from wlk_qwen3_simul.mlx.network import MlxNetwork

if TYPE_CHECKING:
    from wlk_core.plugins import BackendSpec

__all__ = ["load"]

logger = logging.getLogger(__name__)

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
    name = model or str(spec.default_model)
    directory = locate(name, spec=spec, bundled=BUNDLED, cache_dir=cache_dir)
    checkpoint = Checkpoint.read(directory, name=name)
    check_directory(directory)  # before the tokenizer, which takes a second
    vocabulary = Vocabulary.read(directory)
    chosen = choose_dtype(dtype, is_gpu=stream.is_gpu, declared=checkpoint.compute_type)
    with stream.acquire():
        loaded = load_model(directory, dtype=chosen)
    text = loaded.config.text_config
    heads = find_heads(
        alignment_heads,
        directory,
        name=name,
        layers=text.num_hidden_layers,
        heads=text.num_attention_heads,
    )
    network = MlxNetwork(loaded, alignment_heads=heads.pairs, stream=stream, dtype=chosen)
    logger.info("%s runs in %s on %s", name, chosen, stream.device)
    engine = Engine(
        network=network,
        vocabulary=vocabulary,
        checkpoint=checkpoint,
        by_self=heads.row == "self",
    )
    return LoadedBackend(spec, engine, open_stream=open_stream, warmup=warmup)
