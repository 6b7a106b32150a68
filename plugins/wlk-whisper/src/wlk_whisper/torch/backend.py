"""Load Whisper in transformers' format and run its layers on torch."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from faster_whisper.feature_extractor import FeatureExtractor
from faster_whisper.tokenizer import Tokenizer

from wlk_core.frameworks.torch import choose_device, choose_dtype
from wlk_core.models import locate
from wlk_whisper.backend import loaded_backend
from wlk_whisper.checkpoint import Checkpoint, GenerationConfig, transformers_digits
from wlk_whisper.engine.alignment_heads import choose_alignment_heads
from wlk_whisper.engine.engine import WhisperEngine
from wlk_whisper.engine.model_files import TOKENIZER_FILE, read_tokenizer, require_special_tokens
from wlk_whisper.models import DIGITS
from wlk_whisper.torch.checkpoint import load_whisper
from wlk_whisper.torch.network import TorchNetwork

if TYPE_CHECKING:
    from wlk_core.plugins import BackendSpec, LoadedBackend

__all__ = ["load"]

logger = logging.getLogger(__name__)


def load(
    spec: BackendSpec,
    model: str | None,
    *,
    device: str = "auto",
    dtype: str = "auto",
    alignment_heads: str | None = None,
    lora_path: str | None = None,
    cache_dir: str | None = None,
) -> LoadedBackend[WhisperEngine]:
    """
    Find *model* and load it, with the LoRA adapter in *lora_path* merged into it.

    Raises:
        ModelNotFoundError: the model is missing, or is not a Whisper in transformers' format.
        OptionError: the alignment heads or the adapter do not fit the model.
        BackendUnavailable: the device is missing, or peft for an adapter.

    """
    torch_device = choose_device(device)
    name = model or str(spec.default_model)
    bundled = {DIGITS: transformers_digits()} if name == DIGITS else {}
    directory = locate(name, spec=spec, bundled=bundled, cache_dir=cache_dir)
    checkpoint = Checkpoint.read(directory, name=name)
    generation_config = GenerationConfig.read(directory)
    torch_dtype = choose_dtype(dtype, device=torch_device, declared=checkpoint.dtype)
    whisper = load_whisper(directory, device=torch_device, dtype=torch_dtype)
    hf_tokenizer = read_tokenizer(directory / TOKENIZER_FILE)
    require_special_tokens(hf_tokenizer, directory, n_vocab=int(whisper.config.vocab_size))
    if lora_path is not None:
        from wlk_whisper.torch.lora import merge_adapter  # noqa: PLC0415 -- imports peft

        whisper = merge_adapter(whisper, Path(lora_path).expanduser())
    heads = choose_alignment_heads(
        alignment_heads,
        generation_config.alignment_heads,
        name=name,
        n_layers=int(whisper.config.decoder_layers),
        n_heads=int(whisper.config.decoder_attention_heads),
        n_vocab=int(whisper.config.vocab_size),
    )
    network = TorchNetwork(whisper, alignment_heads=heads.pairs)
    logger.info("%s runs in %s on %s", name, network.dtype, network.device)
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
