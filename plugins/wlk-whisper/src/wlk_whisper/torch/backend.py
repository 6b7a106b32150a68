"""Load Whisper in transformers' format and run its layers on torch."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from faster_whisper.feature_extractor import FeatureExtractor
import torch

from wlk_core import BackendUnavailable
from wlk_core.models import locate
from wlk_whisper.backend import WhisperBackend
from wlk_whisper.checkpoint import BUNDLED_DIRECTORIES, Checkpoint
from wlk_whisper.engine.alignment_heads import AlignmentHeads, choose_alignment_heads
from wlk_whisper.engine.engine import WhisperEngine
from wlk_whisper.engine.generation_config import GenerationConfig
from wlk_whisper.engine.tokenizer import TOKENIZER_FILE, read_tokenizer
from wlk_whisper.models import DIGITS
from wlk_whisper.torch.checkpoint import load_whisper
from wlk_whisper.torch.network import TorchNetwork

if TYPE_CHECKING:
    from transformers import WhisperForConditionalGeneration

    from wlk_core import BackendSpec

__all__ = ["load"]

logger = logging.getLogger(__name__)

_PACKAGE = Path(__file__).parent.parent
BUNDLED = _PACKAGE / BUNDLED_DIRECTORIES["whisper"]
# The bundled checkpoint has one tokenizer for all of its formats.
BUNDLED_TOKENIZER = _PACKAGE / BUNDLED_DIRECTORIES["faster-whisper"] / TOKENIZER_FILE
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def load(
    spec: BackendSpec,
    model: str | None,
    *,
    device: str = "auto",
    dtype: str = "auto",
    alignment_heads: str | None = None,
    lora_path: str | None = None,
    cache_dir: str | None = None,
) -> WhisperBackend:
    """
    Find *model* and load it, with the LoRA adapter in *lora_path* merged into it.

    Raises:
        ModelNotFoundError: the model is missing, or is not a Whisper in transformers' format.
        OptionError: the alignment heads or the adapter do not fit the model.
        BackendUnavailable: the device is missing, or peft for an adapter.

    """
    torch_device = _choose_device(device)
    name = model or str(spec.default_model)
    directory = locate(name, spec=spec, bundled={DIGITS: BUNDLED}, cache_dir=cache_dir)
    checkpoint = Checkpoint.read(directory, name=name)
    generation_config = GenerationConfig.read(directory)
    hf_tokenizer = read_tokenizer(
        BUNDLED_TOKENIZER if directory == BUNDLED else directory / TOKENIZER_FILE
    )
    whisper = load_whisper(
        directory, device=torch_device, dtype=_choose_dtype(dtype, checkpoint, torch_device)
    )
    if lora_path is not None:
        from wlk_whisper.torch.lora import merge_adapter  # noqa: PLC0415 -- imports peft

        whisper = merge_adapter(whisper, Path(lora_path).expanduser())
    heads = _choose_heads(alignment_heads, generation_config, name=name, whisper=whisper)
    network = TorchNetwork(whisper, alignment_heads=heads.pairs)
    logger.info("%s runs in %s on %s", name, network.dtype, network.device)
    engine = WhisperEngine(
        network=network,
        hf_tokenizer=hf_tokenizer,
        feature_extractor=FeatureExtractor(feature_size=network.n_mels),
        checkpoint=checkpoint,
        alignment_heads=heads,
        begin_suppress_tokens=generation_config.begin_suppress_tokens,
    )
    return WhisperBackend(spec, engine)


def _choose_device(name: str) -> torch.device:
    is_available = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if is_available[kind]))
    if not is_available[name]:
        check = {
            "cuda": "check the driver with nvidia-smi and the build of torch with "
            "python -c 'import torch; print(torch.version.cuda)'",
            "mps": "it needs macOS 12.3 or later on Apple Silicon",
        }
        raise BackendUnavailable(
            f"device={name} is not available in torch {torch.__version__}; {check[name]}, or leave "
            "the device out"
        )
    return torch.device(name)


def _choose_dtype(name: str, checkpoint: Checkpoint, device: torch.device) -> torch.dtype:
    if name == "auto":
        name = checkpoint.compute_type
    return DTYPES.get(name, torch.float32 if device.type == "cpu" else torch.float16)


def _choose_heads(
    option: str | None,
    generation_config: GenerationConfig,
    *,
    name: str,
    whisper: WhisperForConditionalGeneration,
) -> AlignmentHeads:
    config = whisper.config
    return choose_alignment_heads(
        option,
        generation_config.alignment_heads,
        name=name,
        n_layers=int(config.decoder_layers),
        n_heads=int(config.decoder_attention_heads),
        n_vocab=int(config.vocab_size),
    )
