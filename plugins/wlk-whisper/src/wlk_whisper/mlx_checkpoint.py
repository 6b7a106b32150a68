"""Load a directory in mlx-whisper's format, all of it or not at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import json
from typing import TYPE_CHECKING, Any

import attrs
from mlx import nn
import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_whisper.whisper import ModelDimensions, Whisper
import numpy as np

from wlk_core import ModelNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["LoadedModel", "load_model"]

WEIGHTS = ("weights.safetensors", "weights.npz")
HEADS = "alignment_heads"  # what mlx-whisper's converter calls them, among the weights
DIMENSIONS = tuple(ModelDimensions.__dataclass_fields__)
DTYPES = {"float16": mx.float16, "float32": mx.float32}
NAMED = 3  # how many culprits an error names


@attrs.frozen(kw_only=True, eq=False)
class LoadedModel:
    """
    The modules of a checkpoint, filled and evaluated.

    `heads` are the alignment heads that came with the weights, as (layer, head); None where none
    did.  They may be those of a larger model that this one was distilled from.
    """

    whisper: Whisper
    heads: tuple[tuple[int, int], ...] | None


def load_model(directory: Path, *, dtype: str) -> LoadedModel:
    """
    Load the checkpoint in *directory*, in "float16" or "float32"; quantised weights stay so.

    mlx-whisper's own loader leaves what a file does not hold as it was drawn at random, takes
    weights in whatever type they were saved, and asks a hub for directories it does not find.

    Raises:
        ModelNotFoundError: the files are no such checkpoint, or not all of one.

    """
    config = _config(directory)
    weights = _weights(directory)
    heads = _heads(directory, weights.pop(HEADS, None))
    whisper = _modules(ModelDimensions(**{key: config[key] for key in DIMENSIONS}), DTYPES[dtype])
    if config.get("quantization") is not None:
        _quantize(directory, whisper, config["quantization"], weights)
    _check(directory, whisper, weights)
    floats = {
        key: value.astype(DTYPES[dtype]) if mx.issubdtype(value.dtype, mx.floating) else value
        for key, value in weights.items()
    }
    whisper.load_weights(list(floats.items()), strict=False)  # all but HEADS, which it keeps
    mx.eval(whisper.parameters())
    return LoadedModel(whisper=whisper, heads=heads)


def _modules(sizes: ModelDimensions, dtype: mx.Dtype) -> Whisper:
    """
    Return the modules of a Whisper, with weights at random that are never computed.

    They are made on a thread that ends here, because a thread that has drawn random numbers can
    bring the process down when both end at once (mlx 0.32, ml-explore/mlx#4110): the caller's may
    be one that lives until then.
    """
    stream = mx.default_stream(mx.default_device())

    def make() -> Whisper:
        with mx.stream(stream):
            return Whisper(sizes, dtype)

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(make).result()


def _config(directory: Path) -> dict[str, Any]:
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _refusal(directory, f"config.json cannot be read ({_line(error)})") from error
    if not isinstance(config, dict):
        raise _refusal(directory, f"config.json should be a table, got {type(config).__name__}")
    lacking = [key for key in DIMENSIONS if type(config.get(key)) is not int or config[key] < 1]
    if lacking:
        raise _refusal(directory, f"config.json gives no number for {_some(lacking)}")
    for part in ("audio", "text"):
        width, heads = config[f"n_{part}_state"], config[f"n_{part}_head"]
        if width % (2 * heads):
            raise _refusal(
                directory, f"config.json divides {width} {part} channels among {heads} heads"
            )
    return dict(config)


def _weights(directory: Path) -> dict[str, mx.array]:
    path = next((directory / name for name in WEIGHTS if (directory / name).is_file()), None)
    if path is None:
        found = sorted(entry.name for entry in directory.iterdir())
        raise _refusal(directory, f"it holds no {' or '.join(WEIGHTS)}, but {_some(found)}")
    try:
        weights = mx.load(str(path))
        mx.eval(weights)
    except (RuntimeError, ValueError) as error:
        raise _refusal(directory, f"{path.name} cannot be read ({_line(error)})") from error
    if not isinstance(weights, dict):
        raise _refusal(directory, f"{path.name} holds no named weights")
    return weights


def _heads(directory: Path, saved: mx.array | None) -> tuple[tuple[int, int], ...] | None:
    if saved is None:
        return None
    # Some converters save them as floating point, like everything else.
    pairs = np.array(saved.astype(mx.int32))
    if pairs.ndim != 2 or pairs.shape[1] != 2:  # noqa: PLR2004 -- layer and head
        raise _refusal(directory, f"{HEADS} should be pairs, got shape {pairs.shape}")
    return tuple((int(layer), int(head)) for layer, head in pairs)


def _quantize(
    directory: Path, whisper: Whisper, how: object, weights: Mapping[str, mx.array]
) -> None:
    """Turn the modules whose weights come with scales into quantised ones."""

    def is_quantised(path: str, module: nn.Module) -> bool:
        return isinstance(module, (nn.Linear, nn.Embedding)) and f"{path}.scales" in weights

    if not isinstance(how, dict):
        raise _refusal(directory, f"quantization in config.json should be a table, got {how!r}")
    try:
        nn.quantize(whisper, **how, class_predicate=is_quantised)
    except (TypeError, ValueError) as error:
        raise _refusal(directory, f"it is quantised in an unknown way ({_line(error)})") from error


def _check(directory: Path, whisper: Whisper, weights: Mapping[str, mx.array]) -> None:
    """Raise ModelNotFoundError unless every parameter has a weight of its shape, and no more."""
    wanted = {key: value.shape for key, value in tree_flatten(whisper.parameters()) if key != HEADS}
    if missing := sorted(wanted.keys() - weights.keys()):
        raise _refusal(directory, f"the weights lack {_some(missing)}")
    if unknown := sorted(weights.keys() - wanted.keys()):
        raise _refusal(directory, f"the weights hold {_some(unknown)}, which no Whisper has")
    other = [
        f"{key} is {weights[key].shape} and not {shape}"
        for key, shape in sorted(wanted.items())
        if weights[key].shape != shape
    ]
    if other:
        raise _refusal(directory, f"the weights do not fit config.json: {_some(other)}")


def _refusal(directory: Path, reason: str) -> ModelNotFoundError:
    return ModelNotFoundError(
        f"{directory} is no Whisper in mlx-whisper's format (config.json with weights.safetensors "
        f"or weights.npz): {reason}; get one with: wlk-core pull SIZE --backend mlx-whisper"
    )


def _some(names: list[str]) -> str:
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "") or "nothing"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
