"""Load Whisper in mlx-whisper's format and run its layers on MLX."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from faster_whisper.feature_extractor import FeatureExtractor

from wlk_core.models import locate
from wlk_whisper.backend import WhisperBackend
from wlk_whisper.checkpoint import BUNDLED_DIRECTORIES, Checkpoint
from wlk_whisper.engine.alignment_heads import choose_alignment_heads
from wlk_whisper.engine.engine import WhisperEngine
from wlk_whisper.engine.generation_config import GenerationConfig
from wlk_whisper.mlx.checkpoint import DTYPES, load_model
from wlk_whisper.mlx.device import shared_stream
from wlk_whisper.mlx.network import MlxNetwork
from wlk_whisper.mlx.tokenizer import load_tokenizer
from wlk_whisper.models import DIGITS

if TYPE_CHECKING:
    from wlk_core import BackendSpec

__all__ = ["load"]

logger = logging.getLogger(__name__)

BUNDLED = Path(__file__).parent.parent / BUNDLED_DIRECTORIES["mlx-whisper"]


def load(
    spec: BackendSpec,
    model: str | None,
    *,
    device: str = "auto",
    dtype: str = "auto",
    alignment_heads: str | None = None,
    cache_dir: str | None = None,
) -> WhisperBackend:
    """
    Find *model* and load it.

    Raises:
        ModelNotFoundError: the model is missing, or is not a Whisper in mlx-whisper's format.
        OptionError: the alignment heads do not fit the model.
        BackendUnavailable: the device is missing.

    """
    stream = shared_stream(device)
    name = model or str(spec.default_model)
    directory = locate(name, spec=spec, bundled={DIGITS: BUNDLED}, cache_dir=cache_dir)
    checkpoint = Checkpoint.read(directory, name=name)
    generation_config = GenerationConfig.read(directory)
    preferred = checkpoint.compute_type if dtype == "auto" else dtype
    dtype = preferred if preferred in DTYPES else "float16" if stream.is_gpu else "float32"
    with stream.acquire():
        loaded = load_model(directory, dtype=dtype)
    dims = loaded.whisper.dims
    heads = choose_alignment_heads(
        alignment_heads,
        generation_config.alignment_heads,
        loaded.alignment_heads,
        name=name,
        n_layers=dims.n_text_layer,
        n_heads=dims.n_text_head,
        n_vocab=dims.n_vocab,
    )
    network = MlxNetwork(
        loaded.whisper, alignment_heads=heads.pairs, stream=stream, dtype=DTYPES[dtype]
    )
    logger.info("%s runs in %s on %s", name, dtype, "gpu" if stream.is_gpu else "cpu")
    engine = WhisperEngine(
        network=network,
        hf_tokenizer=load_tokenizer(directory, network.n_vocab),
        feature_extractor=FeatureExtractor(feature_size=network.n_mels),
        checkpoint=checkpoint,
        alignment_heads=heads,
        begin_suppress_tokens=generation_config.begin_suppress_tokens,
    )
    return WhisperBackend(spec, engine)
