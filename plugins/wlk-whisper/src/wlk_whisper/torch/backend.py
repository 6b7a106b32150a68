"""Load a complete Whisper in transformers' format, and run it on torch."""

from __future__ import annotations

from functools import partial
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from faster_whisper.feature_extractor import FeatureExtractor
from faster_whisper.tokenizer import Tokenizer
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from safetensors.torch import load_file
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

from wlk_core.plugins import ModelNotFoundError
from wlk_core.untrusted import one_line
from wlk_frameworks.checkpoints import check_sizes
from wlk_frameworks.memory import require_memory
from wlk_frameworks.torch import available_memory, choose_device, choose_dtype
from wlk_whisper.backend import network_backend
from wlk_whisper.checkpoint import find_model
from wlk_whisper.engine.model_files import REMEDY, SIZES, read_checkpoint, read_tokenizer
from wlk_whisper.torch.network import TorchNetwork

if TYPE_CHECKING:
    from wlk_core.plugins import BackendSpec, LoadedBackend
    from wlk_whisper.engine.engine import WhisperEngine

logger = logging.getLogger(__name__)

TIED_WEIGHT = "proj_out.weight"  # the token embedding, in every Whisper that OpenAI published


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
    """
    Load the Whisper in *directory* onto *device*, with weights in *dtype*.

    The files must hold every parameter and nothing else, because a model with random weights also
    emits text.

    Raises:
        ModelNotFoundError: the directory contains no such model; the message gives the reason.
        BackendUnavailable: the model does not fit into memory.

    """
    table, files, tensors = read_checkpoint(directory)
    require_memory(
        str(directory),
        needed=sum(tensor.size for tensor in tensors.values()) * dtype.itemsize,
        available=available_memory(device),
        device=device.type,
        remedy="choose a smaller model, or another device",
    )
    path = directory / "config.json"
    try:
        config = WhisperConfig.from_dict(table)
        # transformers accepts other names for the same sizes, and the last in the file counts:
        # unchecked, it could build any number of layers before it compares a weight.
        check_sizes(config.to_dict(), SIZES, tensors, path=path, remedy=REMEDY)
        with torch.device("meta"):  # modules without memory or random weights
            whisper = WhisperForConditionalGeneration(config)
    # What transformers raises for a value of the wrong type or an unknown activation.
    except (AttributeError, KeyError, StrictDataclassError, TypeError, ValueError) as error:
        raise ModelNotFoundError(
            f"{path} does not describe a Whisper: {one_line(str(error))}; {REMEDY}"
        ) from error
    try:
        weights = {
            name: tensor.to(device, dtype)
            for path in files
            for name, tensor in load_file(path).items()
        }
        embedding = weights.get("model.decoder.embed_tokens.weight")
        if embedding is not None:
            weights.setdefault(TIED_WEIGHT, embedding)
        whisper.load_state_dict(weights, assign=True)
    except (SafetensorError, OSError, RuntimeError) as error:
        raise ModelNotFoundError(
            f"the weights in {directory} do not fit its config.json: {one_line(str(error))}; "
            f"{REMEDY}"
        ) from error
    whisper.train(mode=False)
    whisper.requires_grad_(False)
    return whisper
