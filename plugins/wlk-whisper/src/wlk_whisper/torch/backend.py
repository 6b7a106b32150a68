"""Load a complete Whisper in transformers' format, and run it on torch."""

from __future__ import annotations

from functools import partial
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from faster_whisper.feature_extractor import FeatureExtractor
from faster_whisper.tokenizer import Tokenizer
from transformers import WhisperForConditionalGeneration

from wlk_frameworks.checkpoints import check_sizes
from wlk_frameworks.torch import choose_device, choose_dtype
from wlk_frameworks.transformers import load_checked
from wlk_whisper.backend import network_backend
from wlk_whisper.checkpoint import find_model
from wlk_whisper.engine.model_files import REMEDY, SIZES, read_checkpoint
from wlk_whisper.engine.tokenizer_file import read_tokenizer
from wlk_whisper.torch.network import TorchNetwork

if TYPE_CHECKING:
    import torch

    from wlk_core.plugins import BackendSpec, LoadedBackend
    from wlk_whisper.engine.engine import WhisperEngine

logger = logging.getLogger(__name__)


def load(
    spec: BackendSpec,
    model: str,
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
        BackendUnavailable: the device is missing, or peft, which adapters need.

    """
    torch_device = choose_device(device)
    directory, checkpoint = find_model(spec, model, cache_dir=cache_dir)
    torch_dtype = choose_dtype(dtype, device=torch_device, declared=checkpoint.dtype)
    whisper = load_whisper(directory, device=torch_device, dtype=torch_dtype)
    config = whisper.config
    hf_tokenizer = read_tokenizer(directory, n_vocab=config.vocab_size)
    if lora_path is not None:
        from wlk_whisper.torch.lora import merge_adapter  # noqa: PLC0415 -- imports peft

        whisper = merge_adapter(whisper, Path(lora_path).expanduser())
    logger.info("%s runs in %s on %s", checkpoint.name, whisper.dtype, whisper.device)
    return network_backend(
        spec,
        directory,
        checkpoint,
        hf_tokenizer,
        new_network=partial(TorchNetwork, whisper),
        tokenizer_class=Tokenizer,
        feature_extractor=FeatureExtractor(feature_size=config.num_mel_bins),
        shape=(config.decoder_layers, config.decoder_attention_heads, config.vocab_size),
        alignment_heads=alignment_heads,
    )


def load_whisper(
    directory: Path, *, device: torch.device, dtype: torch.dtype
) -> WhisperForConditionalGeneration:
    """Load the Whisper in *directory*; raises as `load_checked` and `read_checkpoint`."""
    path = directory / "config.json"
    whisper: WhisperForConditionalGeneration = load_checked(
        WhisperForConditionalGeneration,
        directory,
        read_checkpoint(directory)[0],
        kind="a Whisper",
        check=lambda config, tensors: check_sizes(config, SIZES, tensors, path=path, remedy=REMEDY),
        device=device,
        dtype=dtype,
        alternative="a smaller model, or another device",
    )
    return whisper
