"""The small model of the tests, and its names, tensors and configuration in each layout."""

from __future__ import annotations

import re

from wlk_voxtral import weight_names as names
from wlk_voxtral_mlx.checkpoint import ModelConfig, TransformerConfig

SMALL = ModelConfig(
    encoder=TransformerConfig(
        width=64, layers=2, heads=4, key_heads=4, head_size=16, hidden=128, window=25
    ),
    decoder=TransformerConfig(
        width=64, layers=2, heads=4, key_heads=2, head_size=16, hidden=128, window=20
    ),
    vocabulary=328,
)


def name_in_file(name, layout):
    """
    Return the name of our parameter *name* in files of *layout*: the plugin's tables in reverse.

    Tests compare these with the code of others: transformers, and voxmlx for Mistral's files.
    """
    module, _, kind = name.rpartition(".")
    if module in names._OUTSIDE_NAMES["voxmlx"]:
        found = names._OUTSIDE_NAMES[layout][names._OUTSIDE_NAMES["voxmlx"].index(module)]
    else:
        stack, number, part = re.fullmatch(r"(.+layers)\.(\d+)\.(.+)", module).groups()
        index = names._OUR_STACKS.index(stack)
        parts = names._PARTS[layout][index % len(names._PARTS[layout])]
        found = f"{names._STACKS[layout][index]}.{number}.{parts[names._OUR_PARTS.index(part)]}"
    if layout == "Mistral" and not found.startswith(("norm", "layers")):
        found = f"mm_streams_embeddings.embedding_module.{found}"
    if layout == "transformers":
        found = found.replace("language_model.", "language_model.model.")
    return f"{found}.{kind}"


def file_tensor(name, tensor, layout, sizes):
    """Return our parameter *name* with its rows in the order of *layout*."""
    is_convolution = name.startswith("encoder.conv") and tensor.ndim == 3
    if is_convolution and layout in ("Mistral", "transformers"):
        return tensor.swapaxes(1, 2)
    is_rotated = name.split(".")[-2] in ("q_proj", "k_proj")
    if layout == "transformers" and is_rotated:
        stack = sizes.encoder if name.startswith("encoder.") else sizes.decoder
        heads = stack.heads if "q_proj" in name else stack.key_heads
        rows = tensor.reshape(heads, tensor.shape[0] // heads // 2, 2, -1).swapaxes(1, 2)
        return rows.reshape(tensor.shape)
    return tensor


def file_config(sizes, layout):
    """Return the configuration of *layout* for a model of these sizes."""
    encoder, decoder = ({
        "dim": stack.width, "n_layers": stack.layers, "n_heads": stack.heads,
        "n_kv_heads": stack.key_heads, "head_dim": stack.head_size, "hidden_dim": stack.hidden,
        "sliding_window": stack.window, "rope_theta": stack.rope_theta, "norm_eps": stack.norm_eps,
    } for stack in (sizes.encoder, sizes.decoder))  # fmt: skip
    audio = {"num_mel_bins": sizes.mels, "global_log_mel_max": sizes.ceiling}
    encoder["audio_encoding_args"] = audio
    decoder["vocab_size"] = sizes.vocabulary
    decoder["ada_rms_norm_t_cond_dim"] = sizes.condition
    if layout == "mlx-audio":
        encoder["downsample_factor"] = sizes.downsampling
        return {"model_type": "voxtral_realtime", "encoder_args": encoder, "decoder": decoder}
    if layout != "transformers":
        args = {
            "encoder_args": encoder,
            "downsample_args": {"downsample_factor": sizes.downsampling},
        }
        return {**decoder, "multimodal": {"whisper_model_args": args}}
    parts = [{
        "hidden_size": stack.width, "num_hidden_layers": stack.layers,
        "num_attention_heads": stack.heads, "num_key_value_heads": stack.key_heads,
        "head_dim": stack.head_size, "intermediate_size": stack.hidden,
        "sliding_window": stack.window, "rms_norm_eps": stack.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": stack.rope_theta},
        "vocab_size": sizes.vocabulary,
    } for stack in (sizes.encoder, sizes.decoder)]  # fmt: skip
    return {
        "model_type": "voxtral_realtime",
        "audio_config": {**parts[0], "num_mel_bins": sizes.mels},
        "text_config": parts[1],
        "downsample_factor": sizes.downsampling,
    }
