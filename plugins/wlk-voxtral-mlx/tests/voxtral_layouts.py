"""The small model of the tests, and how each layout writes it down."""

from __future__ import annotations

from wlk_voxtral_mlx.names import _INSIDE, _OUR_STACKS, _OUTSIDE, _STACKS
from wlk_voxtral_mlx.shape import AttentionShape, Shape

SMALL = Shape(
    encoder=AttentionShape(
        width=64, layers=2, heads=4, key_heads=4, head_size=16, hidden=128, window=25
    ),
    decoder=AttentionShape(
        width=64, layers=2, heads=4, key_heads=2, head_size=16, hidden=128, window=20
    ),
    vocabulary=328,
)


def their_name(ours, layout):
    """Return what *layout* calls the weight that we call *ours*."""
    module, _, kind = ours.rpartition(".")
    outside = {mine: theirs for theirs, mine in _OUTSIDE[layout].items()}
    if module in outside:
        return _prefixed(f"{outside[module]}.{kind}", layout)
    for index, stack in enumerate(_OUR_STACKS):
        if module.startswith(f"{stack}."):
            number, part = module.removeprefix(f"{stack}.").split(".", 1)
            names = [theirs for theirs, mine in _INSIDE[layout].items() if mine == part]
            theirs = names[min(index, len(names) - 1)]
            return _prefixed(f"{_STACKS[layout][index]}.{number}.{theirs}.{kind}", layout)
    raise AssertionError(f"{ours} is in no stack")


def _prefixed(name, layout):
    if layout == "transformers":  # as on disk
        return name.replace("language_model.", "language_model.model.")
    is_outer = name.startswith(("layers.", "norm."))
    if layout == "Mistral" and not is_outer:
        return f"mm_streams_embeddings.embedding_module.{name}"
    return name


def their_tensor(ours, tensor, layout, shape):
    """Return a weight in the order of *layout*."""
    if (
        ours.startswith("encoder.conv")
        and tensor.ndim == 3
        and layout in ("Mistral", "transformers")
    ):
        return tensor.swapaxes(1, 2)
    is_turned = ours.split(".")[-2] in ("q_proj", "k_proj")
    if layout == "transformers" and is_turned:
        stack = shape.encoder if ours.startswith("encoder.") else shape.decoder
        heads = stack.heads if "q_proj" in ours else stack.key_heads
        rows = tensor.reshape(heads, tensor.shape[0] // heads // 2, 2, -1).swapaxes(1, 2)
        return rows.reshape(tensor.shape)
    return tensor


def their_config(shape, layout):
    """Return the configuration file that *layout* brings."""
    encoder, decoder = ({
        "dim": stack.width, "n_layers": stack.layers, "n_heads": stack.heads,
        "n_kv_heads": stack.key_heads, "head_dim": stack.head_size, "hidden_dim": stack.hidden,
        "sliding_window": stack.window, "rope_theta": stack.rope_theta, "norm_eps": stack.norm_eps,
    } for stack in (shape.encoder, shape.decoder))  # fmt: skip
    audio = {"num_mel_bins": shape.mels, "global_log_mel_max": shape.ceiling}
    encoder["audio_encoding_args"] = audio
    decoder["vocab_size"] = shape.vocabulary
    decoder["ada_rms_norm_t_cond_dim"] = shape.condition
    if layout == "mlx-audio":
        encoder["downsample_factor"] = shape.downsampling
        return {"model_type": "voxtral_realtime", "encoder_args": encoder, "decoder": decoder}
    if layout != "transformers":
        args = {
            "encoder_args": encoder,
            "downsample_args": {"downsample_factor": shape.downsampling},
        }
        return {**decoder, "multimodal": {"whisper_model_args": args}}
    parts = [{
        "hidden_size": stack.width, "num_hidden_layers": stack.layers,
        "num_attention_heads": stack.heads, "num_key_value_heads": stack.key_heads,
        "head_dim": stack.head_size, "intermediate_size": stack.hidden,
        "sliding_window": stack.window, "rms_norm_eps": stack.norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": stack.rope_theta},
        "vocab_size": shape.vocabulary,
    } for stack in (shape.encoder, shape.decoder)]  # fmt: skip
    return {
        "model_type": "voxtral_realtime",
        "audio_config": {**parts[0], "num_mel_bins": shape.mels},
        "text_config": parts[1],
        "downsample_factor": shape.downsampling,
    }
