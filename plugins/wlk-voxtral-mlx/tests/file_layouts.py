"""The small model of the tests, and its names, tensors and configuration in each layout."""

from __future__ import annotations

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


LAYOUTS = ("Mistral", "transformers", "mlx-audio")
# The names in published files, collected from these files and the code of their makers instead of
# from the tables of the plugin.  The names of our modules are those of voxmlx.
_IN_MISTRAL = "mm_streams_embeddings.embedding_module."
OUTSIDE = {
    "encoder.conv1": (
        f"{_IN_MISTRAL}whisper_encoder.conv_layers.0.conv",
        "audio_tower.embedder.conv1",
        "encoder.conv_layers_0_conv.conv",
    ),
    "encoder.conv2": (
        f"{_IN_MISTRAL}whisper_encoder.conv_layers.1.conv",
        "audio_tower.embedder.conv2",
        "encoder.conv_layers_1_conv.conv",
    ),
    "encoder.norm": (
        f"{_IN_MISTRAL}whisper_encoder.transformer.norm",
        "audio_tower.norm",
        "encoder.transformer_norm",
    ),
    "adapter.w_in": (
        f"{_IN_MISTRAL}audio_language_projection.0",
        "multi_modal_projector.linear_1",
        "encoder.audio_language_projection_0",
    ),
    "adapter.w_out": (
        f"{_IN_MISTRAL}audio_language_projection.2",
        "multi_modal_projector.linear_2",
        "encoder.audio_language_projection_2",
    ),
    "language_model.embed_tokens": (
        f"{_IN_MISTRAL}tok_embeddings",
        "language_model.model.embed_tokens",
        "decoder.tok_embeddings",
    ),
    "language_model.norm": ("norm", "language_model.model.norm", "decoder.norm"),
}
STACKS = {
    "encoder.layers": (
        f"{_IN_MISTRAL}whisper_encoder.transformer.layers",
        "audio_tower.layers",
        "encoder.transformer_layers",
    ),
    "language_model.layers": ("layers", "language_model.model.layers", "decoder.layers"),
}
INSIDE = {
    "attention.q_proj": ("attention.wq", "self_attn.q_proj", "attention.wq"),
    "attention.k_proj": ("attention.wk", "self_attn.k_proj", "attention.wk"),
    "attention.v_proj": ("attention.wv", "self_attn.v_proj", "attention.wv"),
    "attention.o_proj": ("attention.wo", "self_attn.o_proj", "attention.wo"),
    "mlp.gate_proj": ("feed_forward.w1", "mlp.gate_proj", "feed_forward_w1"),
    "mlp.down_proj": ("feed_forward.w2", "mlp.down_proj", "feed_forward_w2"),
    "mlp.up_proj": ("feed_forward.w3", "mlp.up_proj", "feed_forward_w3"),
    "ada_norm.linear_in": (
        "ada_rms_norm_t_cond.0",
        "ada_rms_norm.linear1",
        "ada_rms_norm_t_cond.ada_down",
    ),
    "ada_norm.linear_out": (
        "ada_rms_norm_t_cond.2",
        "ada_rms_norm.linear2",
        "ada_rms_norm_t_cond.ada_up",
    ),
}
NORMS = {
    "encoder.layers": {
        "attn_norm": ("attention_norm", "self_attn_layer_norm", "attention_norm"),
        "ffn_norm": ("ffn_norm", "final_layer_norm", "ffn_norm"),
    },
    "language_model.layers": {
        "attn_norm": ("attention_norm", "input_layernorm", "attention_norm"),
        "ffn_norm": ("ffn_norm", "post_attention_layernorm", "ffn_norm"),
    },
}


def name_in_file(name, layout):
    """Return the name of our parameter *name* in files of *layout*."""
    if layout == "voxmlx":
        return name
    column = LAYOUTS.index(layout)
    module, _, kind = name.rpartition(".")
    if module in OUTSIDE:
        return f"{OUTSIDE[module][column]}.{kind}"
    for stack, names in STACKS.items():
        if module.startswith(f"{stack}."):
            number, part = module.removeprefix(f"{stack}.").split(".", 1)
            inside = {**INSIDE, **NORMS[stack]}[part][column]
            return f"{names[column]}.{number}.{inside}.{kind}"
    raise AssertionError(f"{name} is in no stack")


def file_tensor(name, tensor, layout, sizes):
    """Return our parameter *name* in the order of *layout*."""
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
