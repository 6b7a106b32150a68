"""The qwen3-mlx-simul backend: load a checkpoint and run it on MLX."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from wlk_core.models import locate
from wlk_qwen3_simul.backend import SimulBackend
from wlk_qwen3_simul.checkpoint import Checkpoint
from wlk_qwen3_simul.engine.engine import Engine
from wlk_qwen3_simul.engine.find_heads import find_heads
from wlk_qwen3_simul.engine.vocabulary import Vocabulary
from wlk_qwen3_simul.mlx.checkpoint import DTYPES, load_model
from wlk_qwen3_simul.mlx.network import MlxNetwork
from wlk_qwen3_simul.mlx.stream import shared_stream
from wlk_qwen3_simul.models import BUNDLED

if TYPE_CHECKING:
    from wlk_core import BackendSpec

__all__ = ["load"]

logger = logging.getLogger(__name__)


def load(
    spec: BackendSpec,
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
        ModelNotFoundError: the model is missing or damaged, or is not a Qwen3-ASR in the original
            layout.
        OptionError: the alignment heads are unknown or do not fit the model.
        BackendUnavailable: the machine has no such device.

    """
    stream = shared_stream(device)
    name = model or str(spec.default_model)
    directory = locate(name, spec=spec, bundled=BUNDLED, cache_dir=cache_dir)
    checkpoint = Checkpoint.read(directory, name=name)
    vocabulary = Vocabulary.read(directory)
    requested = checkpoint.compute_type if dtype == "auto" else dtype
    fallback = "float16" if stream.is_gpu else "float32"
    chosen = requested if requested in DTYPES else fallback
    with stream.acquire():
        loaded = load_model(directory, dtype=DTYPES[chosen])
    text = loaded.config.text_config
    heads = find_heads(
        alignment_heads,
        directory,
        name=name,
        layers=text.num_hidden_layers,
        heads=text.num_attention_heads,
    )
    network = MlxNetwork(loaded, alignment_heads=heads.pairs, stream=stream, dtype=DTYPES[chosen])
    logger.info("%s runs in %s on %s", name, chosen, "gpu" if stream.is_gpu else "cpu")
    engine = Engine(
        network=network,
        vocabulary=vocabulary,
        checkpoint=checkpoint,
        by_self=heads.row == "self",
    )
    return SimulBackend(spec, engine)
