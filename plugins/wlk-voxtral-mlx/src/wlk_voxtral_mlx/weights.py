"""Tensors of any layout, put in their places in the model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mlx import nn
import mlx.core as mx
from mlx.utils import tree_flatten

from wlk_voxtral_mlx.names import IGNORED, place_of
from wlk_voxtral_mlx.network import KERNEL, Voxtral

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wlk_voxtral_mlx.names import Place
    from wlk_voxtral_mlx.shape import Shape

__all__ = ["arranged", "build", "read_tensors"]


def read_tensors(directory: Path) -> dict[str, mx.array]:
    """
    Return the tensors of a directory, not read yet: one file, or the shards of an index.

    Raises:
        FileNotFoundError: there are none.

    """
    index = directory / "model.safetensors.index.json"
    if (directory / "consolidated.safetensors").is_file():
        files = [directory / "consolidated.safetensors"]
    elif index.is_file():
        told = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        files = [directory / name for name in sorted(set(told.values()))]
    else:
        files = sorted(directory.glob("model*.safetensors"))
    if not files:
        raise FileNotFoundError("consolidated.safetensors or model.safetensors")
    tensors: dict[str, mx.array] = {}
    for file in files:
        held: Any = mx.load(str(file))
        tensors.update(held)
    return tensors


def arranged(tensors: Mapping[str, mx.array], shape: Shape) -> dict[str, mx.array]:
    """
    Return *tensors* under our names and in our order, lazily.

    Raises:
        ValueError: some belong nowhere.

    """
    ours: dict[str, mx.array] = {}
    strange = []
    for name, tensor in tensors.items():
        if IGNORED.search(name):
            continue
        place = place_of(name)
        if place is None:
            strange.append(name)
        else:
            ours[place.name] = _ordered(place, tensor, shape)
    if strange:
        more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""  # noqa: PLR2004 -- enough to see
        raise ValueError(f"it holds weights that belong nowhere: {', '.join(strange[:3])}{more}")
    return ours


def build(tensors: Mapping[str, mx.array], shape: Shape, *, dtype: mx.Dtype | None) -> Voxtral:
    """
    Return a model with these tensors, all of them evaluated.

    Raises:
        ValueError: some are missing, or have other sizes than the configuration says.

    """
    ours = arranged(tensors, shape)
    model = Voxtral(shape)
    packed = {name.removesuffix(".scales") for name in ours if name.endswith(".scales")}
    if packed and shape.quantization is None:
        raise ValueError("its weights are quantized, and its configuration does not say how")
    if shape.quantization is not None:
        nn.quantize(
            model,
            group_size=shape.quantization.group_size,
            bits=shape.quantization.bits,
            class_predicate=lambda path, _module: path in packed,
        )
    wanted = dict(tree_flatten(model.parameters()))
    if missing := sorted(set(wanted) - set(ours)):
        raise ValueError(f"{len(missing)} weights are missing, such as {missing[0]}")
    for name, tensor in ours.items():
        if name not in wanted or wanted[name].shape != tensor.shape:
            expected = wanted[name].shape if name in wanted else "none"
            raise ValueError(f"{name} has the shape {tensor.shape}, expected {expected}")
        if dtype is not None and mx.issubdtype(tensor.dtype, mx.floating):
            ours[name] = tensor.astype(dtype)
    model.load_weights(list(ours.items()))
    model.eval()
    mx.eval(model.parameters())
    return model


def _ordered(place: Place, tensor: mx.array, shape: Shape) -> mx.array:
    is_convolution = place.name in ("encoder.conv1.weight", "encoder.conv2.weight")
    if is_convolution and tensor.shape[1] != KERNEL:
        return tensor.swapaxes(1, 2)  # [out, in, 3] elsewhere
    if not place.halves:
        return tensor
    stack = shape.encoder if place.name.startswith("encoder.") else shape.decoder
    heads = stack.heads if place.halves == "heads" else stack.key_heads
    size = tensor.shape[0] // heads
    # transformers keeps the halves of rotary pairs apart, everybody else side by side.
    rows = tensor.reshape(heads, 2, size // 2, -1).swapaxes(1, 2)
    return rows.reshape(tensor.shape)
