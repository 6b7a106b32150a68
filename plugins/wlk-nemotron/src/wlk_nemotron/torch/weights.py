"""Load the weights and the feature extractor of a checkpoint with transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import (
    Nemotron3_5AsrForRNNT,
    NemotronAsrStreamingFeatureExtractor,
    NemotronAsrStreamingForRNNT,
)

from wlk_frameworks.checkpoints import LayerCount, TensorSize, check_sizes, read_json_table
from wlk_frameworks.transformers import load_checked

if TYPE_CHECKING:
    from pathlib import Path

    import torch

CLASSES: dict[str, Any] = {
    "nemotron3_5_asr": Nemotron3_5AsrForRNNT,
    "nemotron_asr_streaming": NemotronAsrStreamingForRNNT,
}
_LAYER = "encoder.layers.0"
SIZES = (
    LayerCount("encoder_config.num_hidden_layers", ("encoder.layers.",)),
    TensorSize("encoder_config.hidden_size", (f"{_LAYER}.norm_out.weight",)),
    TensorSize("encoder_config.intermediate_size", (f"{_LAYER}.feed_forward1.linear1.weight",)),
    TensorSize("encoder_config.num_attention_heads", (f"{_LAYER}.self_attn.bias_u",)),
    TensorSize("encoder_config.num_key_value_heads", (f"{_LAYER}.self_attn.bias_u",)),
    TensorSize("encoder_config.head_dim", (f"{_LAYER}.self_attn.bias_u",), axis=1),
    TensorSize("encoder_config.subsampling_conv_channels", ("encoder.subsampling.conv_in.weight",)),
    TensorSize(
        "encoder_config.conv_kernel_size", (f"{_LAYER}.conv.depthwise_conv.weight",), axis=2
    ),
    TensorSize("vocab_size", ("decoder.embedding.weight",)),
    TensorSize("decoder_hidden_size", ("decoder.embedding.weight",), axis=1),
    TensorSize("prompt_intermediate_size", ("prompt_projector.linear_1.weight",)),
)


def load_model(directory: Path, *, device: torch.device, dtype: torch.dtype) -> tuple[Any, Any]:
    """Return a Nemotron ASR model and its feature extractor; raises as `load_checked`."""
    path = directory / "config.json"
    table = read_json_table(path)
    model = load_checked(
        CLASSES[table["model_type"]],
        directory,
        table,
        kind="a Nemotron ASR model",
        check=lambda config, tensors: check_sizes(config, SIZES, tensors, path=path),
        device=device,
        dtype=dtype,
    )
    extractor = NemotronAsrStreamingFeatureExtractor.from_pretrained(
        directory, local_files_only=True
    )
    return model, extractor
