"""The whisper backend: load a checkpoint of transformers and run its layers on torch."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from faster_whisper.feature_extractor import FeatureExtractor
import torch

from wlk_core import BackendUnavailable
from wlk_core.models import locate
from wlk_whisper.checkpoint import BUNDLED, Checkpoint
from wlk_whisper.decoder.engine import Engine
from wlk_whisper.generation import Generation
from wlk_whisper.heads import AlignmentHeads
from wlk_whisper.heads import alignment_heads as heads_of
from wlk_whisper.network_backend import NetworkBackend
from wlk_whisper.sizes import DIGITS
from wlk_whisper.specs.torch import WHISPER
from wlk_whisper.tokenizer_file import TOKENIZER, read_tokenizer
from wlk_whisper.torch_checkpoint import load_whisper
from wlk_whisper.torch_network import TorchNetwork

if TYPE_CHECKING:
    from transformers import WhisperForConditionalGeneration

__all__ = ["load"]

logger = logging.getLogger(__name__)

HERE = Path(__file__).parent / BUNDLED["whisper"]
# 4 MB, so the bundled checkpoint ships one for all its formats.
SHARED_TOKENIZER = Path(__file__).parent / BUNDLED["faster-whisper"] / TOKENIZER
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def load(
    model: str | None,
    *,
    device: str = "auto",
    dtype: str = "auto",
    alignment_heads: str | None = None,
    lora_path: str | None = None,
    cache_dir: str | None = None,
) -> NetworkBackend:
    """
    Find *model* and load it, with the LoRA adapter in *lora_path* merged into it.

    Raises:
        ModelNotFoundError: it is not there, or is no Whisper in transformers' format.
        OptionError: the alignment heads or the adapter do not fit the model.
        BackendUnavailable: the device, or peft for an adapter, is not to be had.

    """
    place = _device(device)
    name = model or str(WHISPER.default_model)
    directory = locate(name, spec=WHISPER, bundled={DIGITS: HERE}, cache_dir=cache_dir)
    checkpoint = Checkpoint.read(directory, name=name)
    generation = Generation.read(directory)
    vocabulary = read_tokenizer(SHARED_TOKENIZER if directory == HERE else directory / TOKENIZER)
    whisper = load_whisper(directory, device=place, dtype=_dtype(dtype, checkpoint, place))
    if lora_path is not None:
        from wlk_whisper.torch_lora import merge_adapter  # noqa: PLC0415 -- brings peft

        whisper = merge_adapter(whisper, Path(lora_path).expanduser())
    heads = _heads(alignment_heads, generation, name=name, whisper=whisper)
    network = TorchNetwork(whisper, alignment_heads=heads.pairs)
    logger.info("%s runs in %s on %s", name, network.dtype, network.device)
    engine = Engine(
        network=network,
        vocabulary=vocabulary,
        extractor=FeatureExtractor(feature_size=network.mels),
        checkpoint=checkpoint,
        begin_suppressed=generation.begin_suppressed,
    )
    return NetworkBackend(WHISPER, engine, heads=heads)


def _device(asked: str) -> torch.device:
    has = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if asked == "auto":
        return torch.device(next(name for name in ("cuda", "mps", "cpu") if has[name]))
    if not has[asked]:
        check = {
            "cuda": "check the driver with nvidia-smi and the build of torch with "
            "python -c 'import torch; print(torch.version.cuda)'",
            "mps": "it needs macOS 12.3 or later on Apple Silicon",
        }
        raise BackendUnavailable(
            f"device={asked} was asked for and torch {torch.__version__} sees none; "
            f"{check[asked]}, or leave the device out"
        )
    return torch.device(asked)


def _dtype(asked: str, checkpoint: Checkpoint, device: torch.device) -> torch.dtype:
    if asked == "auto":
        asked = checkpoint.compute_type
    return DTYPES.get(asked, torch.float32 if device.type == "cpu" else torch.float16)


def _heads(
    asked: str | None,
    generation: Generation,
    *,
    name: str,
    whisper: WhisperForConditionalGeneration,
) -> AlignmentHeads:
    config = whisper.config
    return heads_of(
        asked,
        generation.heads,
        name=name,
        layers=int(config.decoder_layers),
        heads=int(config.decoder_attention_heads),
        vocabulary=int(config.vocab_size),
    )
