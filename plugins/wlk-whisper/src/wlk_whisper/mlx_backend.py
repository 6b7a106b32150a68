"""The mlx-whisper backend: load a checkpoint of mlx-whisper and run its layers on MLX."""

from __future__ import annotations

import logging
from pathlib import Path

from faster_whisper.feature_extractor import FeatureExtractor

from wlk_core.models import locate
from wlk_whisper.checkpoint import BUNDLED, Checkpoint
from wlk_whisper.decoder.engine import Engine
from wlk_whisper.generation import Generation
from wlk_whisper.heads import alignment_heads as heads_of
from wlk_whisper.mlx_checkpoint import DTYPES, load_model
from wlk_whisper.mlx_device import commands_of
from wlk_whisper.mlx_network import MlxNetwork
from wlk_whisper.mlx_vocabulary import vocabulary_of
from wlk_whisper.network_backend import NetworkBackend
from wlk_whisper.sizes import DIGITS
from wlk_whisper.specs.mlx import MLX_WHISPER

__all__ = ["load"]

logger = logging.getLogger(__name__)

HERE = Path(__file__).parent / BUNDLED["mlx-whisper"]


def load(
    model: str | None,
    *,
    device: str = "auto",
    dtype: str = "auto",
    alignment_heads: str | None = None,
    cache_dir: str | None = None,
) -> NetworkBackend:
    """
    Find *model* and load it.

    Raises:
        ModelNotFoundError: it is not there, or is no Whisper in mlx-whisper's format.
        OptionError: the alignment heads do not fit the model.
        BackendUnavailable: the device is not to be had.

    """
    commands = commands_of(device)
    name = model or str(MLX_WHISPER.default_model)
    directory = locate(name, spec=MLX_WHISPER, bundled={DIGITS: HERE}, cache_dir=cache_dir)
    checkpoint = Checkpoint.read(directory, name=name)
    generation = Generation.read(directory)
    wanted = checkpoint.compute_type if dtype == "auto" else dtype
    arithmetic = wanted if wanted in DTYPES else "float16" if commands.is_gpu else "float32"
    with commands.turn():
        loaded = load_model(directory, dtype=arithmetic)
    dims = loaded.whisper.dims
    heads = heads_of(
        alignment_heads,
        generation.heads,
        loaded.heads,
        name=name,
        layers=dims.n_text_layer,
        heads=dims.n_text_head,
        vocabulary=dims.n_vocab,
    )
    network = MlxNetwork(
        loaded.whisper, alignment_heads=heads.pairs, commands=commands, dtype=DTYPES[arithmetic]
    )
    logger.info("%s runs in %s on %s", name, arithmetic, "gpu" if commands.is_gpu else "cpu")
    engine = Engine(
        network=network,
        vocabulary=vocabulary_of(directory, network.vocabulary),
        extractor=FeatureExtractor(feature_size=network.mels),
        checkpoint=checkpoint,
        begin_suppressed=generation.begin_suppressed,
    )
    return NetworkBackend(MLX_WHISPER, engine, heads=heads)
