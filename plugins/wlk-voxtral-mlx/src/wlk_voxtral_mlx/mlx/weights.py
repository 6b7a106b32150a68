"""Read the tensors of a checkpoint in any layout, and build the model from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlx import nn
import mlx.core as mx
from mlx.utils import tree_flatten

from wlk_voxtral.weight_names import IGNORED, module_weight
from wlk_voxtral_mlx.checkpoint import weight_files
from wlk_voxtral_mlx.mlx.modules import KERNEL, Voxtral

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wlk_voxtral.weight_names import WeightName
    from wlk_voxtral_mlx.checkpoint import ModelConfig


class WeightError(Exception):
    """The weights of a checkpoint do not fit the model; the message gives the reason."""

    @classmethod
    def of(cls, error: Exception) -> WeightError:
        """Convert an error of a framework, with its reason in one line."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return cls(" ".join(lines[:2]).removesuffix(".") or type(error).__name__)


def read_tensors(directory: Path) -> dict[str, mx.array]:
    """
    Return the tensors of all weight files in *directory*, lazily.

    Raises:
        WeightError: a file is missing or damaged.

    """
    tensors: dict[str, mx.array] = {}
    for file in weight_files(directory):
        try:
            loaded: Any = mx.load(str(file))
        except (OSError, RuntimeError, ValueError) as error:
            raise WeightError.of(error) from error
        tensors.update(loaded)
    return tensors


def renamed_tensors(tensors: Mapping[str, mx.array], config: ModelConfig) -> dict[str, mx.array]:
    """
    Return *tensors* under the names and in the row order of our modules, lazily.

    Raises:
        WeightError: some are not parameters of the model.

    """
    weights: dict[str, mx.array] = {}
    unknown = []
    for name, tensor in tensors.items():
        if IGNORED.search(name):
            continue
        weight = module_weight(name)
        if weight is None:
            unknown.append(name)
        else:
            weights[weight.name] = _ordered(weight, tensor, config)
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""  # noqa: PLR2004 -- three identify the model
        raise WeightError(f"it contains unknown weights: {', '.join(unknown[:3])}{more}")
    return weights


def build_model(
    tensors: Mapping[str, mx.array], config: ModelConfig, *, dtype: mx.Dtype | None
) -> Voxtral:
    """
    Return a model with these tensors, all of them evaluated.

    Raises:
        WeightError: some are missing, or have other sizes than the configuration.
        MemoryError: they do not fit into memory.

    """
    weights = renamed_tensors(tensors, config)
    model = Voxtral(config)
    packed = {name.removesuffix(".scales") for name in weights if name.endswith(".scales")}
    if packed and config.quantization is None:
        raise WeightError("its weights are quantized, but its configuration does not declare how")
    if config.quantization is not None:
        try:
            nn.quantize(
                model,
                group_size=config.quantization.group_size,
                bits=config.quantization.bits,
                class_predicate=lambda path, _module: path in packed,
            )
        except ValueError as error:  # a matrix whose width is not a multiple of the group size
            raise WeightError.of(error) from error
    parameters = dict(tree_flatten(model.parameters()))
    if missing := sorted(set(parameters) - set(weights)):
        raise WeightError(f"{len(missing)} weights are missing, such as {missing[0]}")
    for name, tensor in weights.items():
        if name not in parameters or parameters[name].shape != tensor.shape:
            expected = parameters[name].shape if name in parameters else "none"
            raise WeightError(f"{name} has the shape {tensor.shape}, expected {expected}")
        if dtype is not None and mx.issubdtype(tensor.dtype, mx.floating):
            weights[name] = tensor.astype(dtype)
    model.load_weights(list(weights.items()))
    model.eval()
    evaluate(model)
    return model


def weight_bytes(tensor: mx.array, dtype: mx.Dtype | None) -> int:
    """Return the bytes of *tensor*, cast to *dtype* if both are floating."""
    if dtype is None or not mx.issubdtype(tensor.dtype, mx.floating):
        return int(tensor.nbytes)
    return int(tensor.size * dtype.size)


def evaluate(model: Any) -> None:
    """
    Compute the weights of a model.

    Raises:
        MemoryError: they do not fit into memory.

    """
    try:
        mx.eval(model.parameters())
    except RuntimeError as error:  # MLX has no exception of its own for too little memory
        raise MemoryError(str(error)) from error


def _ordered(weight: WeightName, tensor: mx.array, config: ModelConfig) -> mx.array:
    is_convolution = weight.name in ("encoder.conv1.weight", "encoder.conv2.weight")
    if is_convolution and tensor.shape[1] != KERNEL:
        return tensor.swapaxes(1, 2)  # [out, in, 3] in other layouts
    if not weight.halves:
        return tensor
    stack = config.encoder if weight.name.startswith("encoder.") else config.decoder
    heads = stack.heads if weight.halves == "heads" else stack.key_heads
    size = tensor.shape[0] // heads
    if heads * size != tensor.shape[0] or size % 2:
        raise WeightError(f"{weight.name} has the shape {tensor.shape}, not that of {heads} heads")
    # transformers keeps the two halves of rotary pairs apart; the other layouts interleave them.
    rows = tensor.reshape(heads, 2, size // 2, -1).swapaxes(1, 2)
    return rows.reshape(tensor.shape)
