"""Load Whisper in mlx-whisper's format, or in transformers', and run its layers on MLX."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from faster_whisper.feature_extractor import FeatureExtractor
from faster_whisper.tokenizer import Tokenizer

from wlk_core.frameworks.mlx import choose_dtype, shared_stream
from wlk_core.models import locate
from wlk_whisper.backend import loaded_backend
from wlk_whisper.checkpoint import Checkpoint, GenerationConfig, transformers_digits
from wlk_whisper.engine.alignment_heads import choose_alignment_heads
from wlk_whisper.engine.engine import WhisperEngine
from wlk_whisper.engine.model_files import require_special_tokens
from wlk_whisper.mlx.checkpoint import load_model
from wlk_whisper.mlx.network import MlxNetwork
from wlk_whisper.mlx.tokenizer import load_tokenizer
from wlk_whisper.models import DIGITS

if TYPE_CHECKING:
    from wlk_core.plugins import BackendSpec, LoadedBackend

__all__ = ["load"]

logger = logging.getLogger(__name__)

INSTALL_HINT = "pip install 'wlk-whisper[mlx-cuda]'"


def load(
    spec: BackendSpec,
    model: str | None,
    *,
    device: str = "auto",
    dtype: str = "auto",
    alignment_heads: str | None = None,
    cache_dir: str | None = None,
) -> LoadedBackend[WhisperEngine]:
    """
    Find *model* and load it.

    Raises:
        ModelNotFoundError: the model is missing, or is not a Whisper in a format that MLX reads.
        OptionError: the alignment heads do not fit the model.
        BackendUnavailable: the device is missing.

    """
    stream = shared_stream(device, install_hint=INSTALL_HINT)
    name = model or str(spec.default_model)
    bundled = {DIGITS: transformers_digits()} if name == DIGITS else {}
    directory = locate(name, spec=spec, bundled=bundled, cache_dir=cache_dir)
    checkpoint = Checkpoint.read(directory, name=name)
    generation_config = GenerationConfig.read(directory)
    mlx_dtype = choose_dtype(dtype, is_gpu=stream.is_gpu, declared=checkpoint.dtype)
    with stream.acquire():
        loaded = load_model(directory, dtype=mlx_dtype)
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
    hf_tokenizer = load_tokenizer(directory, dims.n_vocab)
    require_special_tokens(hf_tokenizer, directory, n_vocab=dims.n_vocab)
    network = MlxNetwork(
        loaded.whisper, alignment_heads=heads.pairs, stream=stream, dtype=mlx_dtype
    )
    logger.info("%s runs in %s on %s", name, mlx_dtype, stream.device)
    engine = WhisperEngine(
        network=network,
        hf_tokenizer=hf_tokenizer,
        tokenizer_class=Tokenizer,
        feature_extractor=FeatureExtractor(feature_size=network.n_mels),
        checkpoint=checkpoint,
        alignment_heads=heads,
        begin_suppress_tokens=generation_config.begin_suppress_tokens,
    )
    return loaded_backend(spec, engine)
