"""Load a Qwen3-ASR with mlx-qwen3-asr, and refuse one that is incomplete or damaged."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import mlx.core as mx
from mlx_qwen3_asr import load_model as load_files
from mlx_qwen3_asr.config import Qwen3ASRConfig
from msgspec import Meta, Struct

from wlk_core.plugins import ModelNotFoundError
from wlk_core.untrusted import reason
from wlk_frameworks.checkpoints import read_json_table, read_safetensors_headers
from wlk_frameworks.memory import out_of_memory, require_memory
from wlk_frameworks.mlx import available_memory
from wlk_qwen3_simul.engine.config import check_config, read_config_table, ties_head

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from wlk_frameworks.checkpoints import TensorHeader

READABLE_BITS = (2, 4, 8)


class _Quantization(Struct):
    bits: Annotated[int, Meta(ge=1, le=8)] | None = None
    group_size: Annotated[int, Meta(ge=1, le=1024)] | None = None


def load_model(directory: Path, *, dtype: Any) -> Any:
    """
    Load the Qwen3-ASR in *directory*, in the original layout, with weights of *dtype*.

    The weights must fit the config key for key, because a model with random weights would still
    emit text.

    Raises:
        ModelNotFoundError: the model is missing, damaged or incomplete.
        BackendUnavailable: it does not fit into memory.

    """
    table, tensors = check_directory(directory)
    device, name, remedy = mx.default_device().type.name, str(directory), "choose a smaller model"
    needed = sum(tensor.bytes_in(dtype.size) for tensor in tensors.values())
    available = available_memory(device)
    require_memory(name, needed=needed, available=available, device=device, remedy=remedy)
    try:
        _check_head(directory, table, tensors)
        model, _ = load_files(name, dtype=dtype)
    except MemoryError as error:
        raise out_of_memory(
            name, needed=needed, available=available, device=device, remedy=remedy
        ) from error
    except Exception as error:
        raise _damaged(directory, error) from error
    # For float32, mlx-qwen3-asr does not convert weights that are stored in half precision.
    model.set_dtype(dtype)
    mx.eval(model.parameters())
    return model


def is_quantized(directory: Path) -> bool:
    """Return whether the weights in *directory* are quantized; raises as `check_directory`."""
    return any(name.endswith(".scales") for name in check_directory(directory)[1])


def check_directory(directory: Path) -> tuple[dict[str, Any], dict[str, TensorHeader]]:
    """
    Return the config.json and the headers of the weights in *directory*, whose sizes match.

    Raises:
        ModelNotFoundError: it contains no Qwen3-ASR in the original layout, or its files
            contradict each other.

    """
    table = read_config_table(directory)
    if "thinker_config" not in table:
        raise ModelNotFoundError(
            f"{directory} is in the layout of transformers, which mlx-qwen3-asr does not read; use "
            "the original repository, such as Qwen/Qwen3-ASR-0.6B, or the backend qwen3-simul"
        )
    quantization = table.get("quantization")
    bits = quantization.get("bits") if isinstance(quantization, dict) else None
    if bits is not None and bits not in READABLE_BITS:
        raise ModelNotFoundError(
            f"{directory} is quantized to {str(bits)[:20]} bits, but mlx-qwen3-asr reads only 2, 4 "
            "and 8; use such a model, or one that is not quantized"
        )
    read_json_table(directory / "quantization_config.json", _Quantization)
    # mlx-qwen3-asr loads every such file.
    tensors = read_safetensors_headers(sorted(directory.glob("*.safetensors")))
    try:
        config = Qwen3ASRConfig.from_dict(table)  # fills in defaults of absent keys
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise _damaged(directory, error) from error
    check_config(directory, asdict(config), tensors)
    return table, tensors


def _check_head(directory: Path, table: dict[str, Any], tensors: Iterable[str]) -> None:
    """Raise ModelNotFoundError if config.json and the weights disagree about the lm_head."""
    names = {name.removeprefix("thinker."): name for name in tensors}
    head, embedding = names.get("lm_head.weight"), names.get("model.embed_tokens.weight")
    if ties_head(table) == (head is None):
        return
    if head is None:
        fault = "lack an lm_head, but its config.json does not tie it to the embedding"
    elif embedding is None or "lm_head.scales" in names:
        return  # an lm_head that was quantized separately from the embedding is kept
    else:
        arrays: dict[str, Any] = {}
        for file in directory.glob("*.safetensors"):
            arrays.update(mx.load(str(file)))  # lazily: an array is read when it is evaluated
        if mx.array_equal(arrays[head], arrays[embedding]):
            return
        fault = (
            "have an lm_head of their own, but its config.json ties the lm_head to the embedding"
        )
    raise ModelNotFoundError(f"the weights in {directory} {fault}; pull the model again")


def _damaged(directory: Path, error: Exception) -> ModelNotFoundError:
    return ModelNotFoundError(
        f"the weights in {directory} cannot be loaded: {reason(error)}; pull the model again"
    )
