"""Map the tensor names of each layout to voxmlx's, and flag rotary rows to be reordered."""

from __future__ import annotations

import re
from typing import Literal, get_args

import attrs

Layout = Literal["Mistral", "voxmlx", "transformers", "mlx-audio"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)

#: Tensors that are not loaded: the tied output layer, and tables that are computed.
IGNORED = re.compile(r"^(output|(.+\.)?lm_head)\.weight$|rotary_emb|inv_freq")


@attrs.frozen
class WeightName:
    """
    The parameter that a tensor of a file holds, named as in the layout of voxmlx.

    `halves` is the head count by which separate halves of rotary pairs are interleaved; "" if they
    already are.
    """

    name: str
    layout: Layout
    halves: Literal["", "heads", "key_heads"] = ""


#: The modules outside the layers, in the same order in each layout; voxmlx's names are ours.
_OUTSIDE_NAMES: dict[Layout, tuple[str, ...]] = {
    "Mistral": (
        "whisper_encoder.conv_layers.0.conv",
        "whisper_encoder.conv_layers.1.conv",
        "whisper_encoder.transformer.norm",
        "audio_language_projection.0",
        "audio_language_projection.2",
        "tok_embeddings",
        "norm",
    ),
    "voxmlx": (
        "encoder.conv1",
        "encoder.conv2",
        "encoder.norm",
        "adapter.w_in",
        "adapter.w_out",
        "language_model.embed_tokens",
        "language_model.norm",
    ),
    "transformers": (
        "audio_tower.embedder.conv1",
        "audio_tower.embedder.conv2",
        "audio_tower.norm",
        "multi_modal_projector.linear_1",
        "multi_modal_projector.linear_2",
        "language_model.embed_tokens",
        "language_model.norm",
    ),
    "mlx-audio": (
        "encoder.conv_layers_0_conv.conv",
        "encoder.conv_layers_1_conv.conv",
        "encoder.transformer_norm",
        "encoder.audio_language_projection_0",
        "encoder.audio_language_projection_2",
        "decoder.tok_embeddings",
        "decoder.norm",
    ),
}
_OUTSIDE: dict[Layout, dict[str, str]] = {
    layout: dict(zip(names, _OUTSIDE_NAMES["voxmlx"], strict=True))
    for layout, names in _OUTSIDE_NAMES.items()
}
#: The name before a layer's number, in the encoder and in the decoder.
_STACKS: dict[Layout, tuple[str, str]] = {
    "Mistral": ("whisper_encoder.transformer.layers", "layers"),
    "voxmlx": ("encoder.layers", "language_model.layers"),
    "transformers": ("audio_tower.layers", "language_model.layers"),
    "mlx-audio": ("encoder.transformer_layers", "decoder.layers"),
}
_OUR_STACKS = _STACKS["voxmlx"]
_OUR_PARTS = (
    *(f"attention.{part}_proj" for part in "qkvo"),
    "attn_norm",
    "ffn_norm",
    *(f"mlp.{part}_proj" for part in ("gate", "down", "up")),
    "ada_norm.linear_in",
    "ada_norm.linear_out",
)
_MISTRAL_PARTS = (*(f"attention.w{part}" for part in "qkvo"), "attention_norm", "ffn_norm")
#: The names after a layer's number, in the order of _OUR_PARTS; the norms in the encoder and in the
#: decoder of transformers have different names.
_PARTS: dict[Layout, tuple[tuple[str, ...], ...]] = {
    "voxmlx": (_OUR_PARTS,),
    "Mistral": (
        (
            *_MISTRAL_PARTS,
            *(f"feed_forward.w{number}" for number in "123"),
            "ada_rms_norm_t_cond.0",
            "ada_rms_norm_t_cond.2",
        ),
    ),
    "mlx-audio": (
        (
            *_MISTRAL_PARTS,
            *(f"feed_forward_w{number}" for number in "123"),
            "ada_rms_norm_t_cond.ada_down",
            "ada_rms_norm_t_cond.ada_up",
        ),
    ),
    "transformers": tuple(
        (
            *(f"self_attn.{part}_proj" for part in "qkvo"),
            *norms,
            *(f"mlp.{part}_proj" for part in ("gate", "down", "up")),
            "ada_rms_norm.linear1",
            "ada_rms_norm.linear2",
        )
        for norms in (
            ("self_attn_layer_norm", "final_layer_norm"),
            ("input_layernorm", "post_attention_layernorm"),
        )
    ),
}
_INSIDE: dict[Layout, dict[str, str]] = {
    layout: {
        theirs: ours for names in tables for theirs, ours in zip(names, _OUR_PARTS, strict=True)
    }
    for layout, tables in _PARTS.items()
}
_HALVES: dict[str, Literal["", "heads", "key_heads"]] = {
    "attention.q_proj": "heads",
    "attention.k_proj": "key_heads",
}
_PREFIX = re.compile(r"^(mm_streams_embeddings\.embedding_module|mm_whisper_embeddings|model)\.")
_LAYER = re.compile(r"^(?P<stack>.*?layers)\.(?P<number>\d+)\.(?P<part>.+)$")


def module_weight(name: str) -> WeightName | None:
    """Return the parameter that the tensor *name* of any layout holds, or None if it holds none."""
    plain = _PREFIX.sub("", name).replace("language_model.model.", "language_model.")
    module, _, kind = plain.rpartition(".")
    layer = _LAYER.match(module)
    for layout in LAYOUTS:
        if module in _OUTSIDE[layout]:
            return WeightName(f"{_OUTSIDE[layout][module]}.{kind}", layout)
        if layer is None or layer["stack"] not in _STACKS[layout]:
            continue
        part = _INSIDE[layout].get(layer["part"])
        if part is not None:
            stack = _OUR_STACKS[_STACKS[layout].index(layer["stack"])]
            ours = f"{stack}.{layer['number']}.{part}.{kind}"
            halves = _HALVES.get(part, "") if layout == "transformers" else ""
            return WeightName(ours, layout, halves)
    return None


def layout_of(names: list[str]) -> Layout | None:
    """Return the layout of most of *names*, or None if none is known."""
    layouts = [weight.layout for name in names if (weight := module_weight(name)) is not None]
    return max(layouts, key=layouts.count, default=None)
