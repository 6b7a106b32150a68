"""The sizes in a configuration of any layout: their kinds, and where the weights have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from wlk_core.errors import ModelNotFoundError
from wlk_core.models import (
    LayerCount,
    TensorSize,
    check_sizes,
    read_safetensors_headers,
    shard_names,
)
from wlk_core.models.json_kinds import AnyOf, Kind, Number, Table, Text, Whole
from wlk_voxtral_mlx.mlx.weight_names import module_weight

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["check_config", "schema_of", "weight_files"]

MISTRAL_WEIGHTS = "consolidated.safetensors"
_WINDOW = AnyOf((Whole(1), Text()), label="a whole number")  # some files write it as text
_MELS = Whole(1, 512)
_FACTOR = Whole(1, 64)


@attrs.frozen
class _Keys:
    """The keys of a stack of layers: of sizes that it must have, and of those that it may have."""

    width: str
    layers: str
    hidden: str
    heads: str
    head_size: str
    key_heads: str
    norm_eps: str

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kinds of the keys."""
        sizes = (self.width, self.layers, self.hidden, self.heads, self.head_size, self.key_heads)
        return {
            **dict.fromkeys(sizes, Whole(1)),
            self.norm_eps: Number(0, 1),
            "rope_theta": Number(1, 1e12),
            "rope_parameters": Table({"rope_theta": Number(1, 1e12)}),
            "sliding_window": _WINDOW,
            "vocab_size": Whole(1),
            "ada_rms_norm_t_cond_dim": Whole(1),
            "num_mel_bins": _MELS,
            "downsample_factor": _FACTOR,
            "audio_encoding_args": Table(
                {"num_mel_bins": _MELS, "global_log_mel_max": Number(-20, 20)}
            ),
        }


_MISTRAL = _Keys("dim", "n_layers", "hidden_dim", "n_heads", "head_dim", "n_kv_heads", "norm_eps")
_TRANSFORMERS = _Keys(
    "hidden_size",
    "num_hidden_layers",
    "intermediate_size",
    "num_attention_heads",
    "head_dim",
    "num_key_value_heads",
    "rms_norm_eps",
)
_STACK = Table(_MISTRAL.kinds)


def schema_of(config: Mapping[str, Any]) -> Table:
    """Return the schema of the layout of *config*; which keys it needs is the reader's to check."""
    quantization = Table({"bits": Whole(), "group_size": Whole(), "mode": Text()})
    common: dict[str, Kind] = {"quantization": quantization, "quantization_config": quantization}
    if "multimodal" in config:
        args = Table(
            {"encoder_args": _STACK, "downsample_args": Table({"downsample_factor": _FACTOR})},
            required=("encoder_args",),
        )
        whisper = Table({"whisper_model_args": args}, required=("whisper_model_args",))
        return Table({**common, **_MISTRAL.kinds, "multimodal": whisper}, required=("multimodal",))
    if "encoder_args" in config:
        return Table({**common, "encoder_args": _STACK, "decoder": _STACK}, required=("decoder",))
    stack = Table(_TRANSFORMERS.kinds)
    parts: dict[str, Kind] = {"audio_config": stack, "text_config": stack}
    return Table({**common, **parts, "downsample_factor": _FACTOR})


def check_config(config: Mapping[str, Any], files: list[Path], *, path: Path) -> None:
    """
    Check that the sizes of *config*, which was read from *path*, are those of the weights.

    Raises:
        ModelNotFoundError: a size differs, or a file is missing or damaged.

    """
    headers = read_safetensors_headers(files)
    named = {module_weight(name): header for name, header in headers.items()}
    tensors = {weight.name: header for weight, header in named.items() if weight is not None}
    if "multimodal" in config:
        keys, encoder, decoder = _MISTRAL, "multimodal.whisper_model_args.encoder_args.", ""
    elif "encoder_args" in config:
        keys, encoder, decoder = _MISTRAL, "encoder_args.", "decoder."
    else:
        keys, encoder, decoder = _TRANSFORMERS, "audio_config.", "text_config."
    sizes = (
        *_stack_sizes(keys, encoder, "encoder"),
        *_stack_sizes(keys, decoder, "language_model"),
        TensorSize(f"{decoder}vocab_size", ("language_model.embed_tokens.weight",)),
        TensorSize(
            f"{decoder}ada_rms_norm_t_cond_dim",
            ("language_model.layers.0.ada_norm.linear_in.weight",),
        ),
    )
    check_sizes(config, sizes, tensors, path=path)


def weight_files(directory: Path) -> list[Path]:
    """
    Return the weights of a directory: Mistral's file, the shards of an index, or all of a name.

    Raises:
        ModelNotFoundError: the index is damaged, or there are no weights.

    """
    if (directory / MISTRAL_WEIGHTS).is_file():
        return [directory / MISTRAL_WEIGHTS]
    names = shard_names(directory / "model.safetensors.index.json")
    files = [directory / name for name in names] or sorted(directory.glob("model*.safetensors"))
    if not files:
        raise ModelNotFoundError(
            f"{directory} has neither {MISTRAL_WEIGHTS} nor model.safetensors; pull the model again"
        )
    return files


def _stack_sizes(keys: _Keys, prefix: str, stack: str) -> tuple[LayerCount | TensorSize, ...]:
    layer = f"{stack}.layers.0"
    head_size = f"{prefix}{keys.head_size}"
    return (
        LayerCount(f"{prefix}{keys.layers}", (f"{stack}.layers.",)),
        TensorSize(f"{prefix}{keys.width}", (f"{stack}.norm.weight",)),
        TensorSize(f"{prefix}{keys.hidden}", (f"{layer}.mlp.gate_proj.weight",)),
        TensorSize(f"{prefix}{keys.heads} x {head_size}", (f"{layer}.attention.q_proj.weight",)),
        TensorSize(
            f"{prefix}{keys.key_heads} x {head_size}", (f"{layer}.attention.k_proj.weight",)
        ),
    )
