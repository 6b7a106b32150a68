"""The qwen3-mlx-simul backend: load a checkpoint and run it on MLX."""

from __future__ import annotations

import logging

from wlk_core.models import locate
from wlk_qwen3_simul.backend import SimulBackend
from wlk_qwen3_simul.loading import BUNDLED, find_heads, read_beside
from wlk_qwen3_simul.mlx_checkpoint import DTYPES, load_model
from wlk_qwen3_simul.mlx_device import commands_of
from wlk_qwen3_simul.mlx_network import MlxNetwork
from wlk_qwen3_simul.simul.engine import Engine
from wlk_qwen3_simul.specs import QWEN3_MLX_SIMUL

__all__ = ["load"]

logger = logging.getLogger(__name__)


def load(
    model: str | None,
    *,
    device: str = "auto",
    dtype: str = "auto",
    alignment_heads: str | None = None,
    cache_dir: str | None = None,
) -> SimulBackend:
    """
    Find *model* and load it.

    Raises:
        ModelNotFoundError: it is not there, or is no Qwen3-ASR in the original layout.
        OptionError: the alignment heads are unknown or do not fit the model.
        BackendUnavailable: the device is not to be had.

    """
    commands = commands_of(device)
    name = model or str(QWEN3_MLX_SIMUL.default_model)
    directory = locate(name, spec=QWEN3_MLX_SIMUL, bundled=BUNDLED, cache_dir=cache_dir)
    checkpoint, vocabulary = read_beside(directory, name=name)
    wanted = checkpoint.compute_type if dtype == "auto" else dtype
    arithmetic = wanted if wanted in DTYPES else "float16" if commands.is_gpu else "float32"
    with commands.turn():
        loaded = load_model(directory, dtype=DTYPES[arithmetic])
    text = loaded.config.text_config
    heads = find_heads(
        alignment_heads,
        directory,
        name=name,
        layers=text.num_hidden_layers,
        heads=text.num_attention_heads,
    )
    network = MlxNetwork(
        loaded, alignment_heads=heads.pairs, commands=commands, dtype=DTYPES[arithmetic]
    )
    logger.info("%s runs in %s on %s", name, arithmetic, "gpu" if commands.is_gpu else "cpu")
    engine = Engine(
        network=network,
        vocabulary=vocabulary,
        checkpoint=checkpoint,
        by_self=heads.row == "self",
    )
    return SimulBackend(QWEN3_MLX_SIMUL, engine)
