"""Load the weights of a directory, all of them or none, into the modules of mlx-whisper."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from mlx import nn
import mlx.core as mx
from mlx_whisper.whisper import ModelDimensions, Whisper
from msgspec import Meta, Struct
import numpy as np

from wlk_core.frameworks.memory import require_memory
from wlk_core.frameworks.mlx import available_memory
from wlk_core.models import LayerCount, Size, TensorSize, check_sizes, read_json_table
from wlk_core.plugins import ModelNotFoundError
from wlk_core.untrusted import one_line
from wlk_whisper.engine.model_files import read_checkpoint
from wlk_whisper.mlx.transformers_format import (
    convert_config,
    convert_weights,
    find_unsupported,
    is_transformers_format,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["LoadedModel", "load_model"]

WEIGHTS = ("weights.safetensors", "weights.npz")
ALIGNMENT_HEADS = "alignment_heads"  # the name among the weights that mlx-whisper's converter uses
REMEDY = "get one with: wlk-core pull SIZE --backend mlx-whisper"
MAX_NAMED = 4  # files that an error message lists
# The sizes that the weights have, too.  mlx-whisper computes the sinusoids of its encoder.
_SIZES = (
    LayerCount("n_audio_layer", ("encoder.blocks.",)),
    LayerCount("n_text_layer", ("decoder.blocks.",)),
    TensorSize("n_audio_state", ("encoder.ln_post.bias",)),
    TensorSize("n_text_state", ("decoder.ln.bias",)),
    TensorSize("n_mels", ("encoder.conv1.weight",), axis=2),
    TensorSize("n_vocab", ("decoder.token_embedding.weight",)),
    TensorSize("n_text_ctx", ("decoder.positional_embedding",)),
)


class _Dimensions(Struct):
    n_mels: Size
    n_audio_ctx: Annotated[int, Meta(ge=1, le=30_000)]  # ten minutes; every Whisper has 1,500
    n_audio_state: Size
    n_audio_head: Size
    n_audio_layer: Size
    n_vocab: Size
    n_text_ctx: Size
    n_text_state: Size
    n_text_head: Size
    n_text_layer: Size


@attrs.frozen(kw_only=True, eq=False)
class LoadedModel:
    """
    The modules of a checkpoint, filled and evaluated.

    `alignment_heads` are the (layer, head) pairs among the weights, None where there are none.
    They may be those of a larger model that this one was distilled from.
    """

    whisper: Whisper
    alignment_heads: tuple[tuple[int, int], ...] | None


def load_model(directory: Path, *, dtype: mx.Dtype) -> LoadedModel:
    """
    Load the checkpoint in *directory* in *dtype*; quantised weights stay so.

    The directory is in mlx-whisper's format or in transformers'.  mlx-whisper's own loader keeps
    random weights for what a file lacks, takes weights in the type they were saved in, and asks a
    hub for directories it does not find.

    Raises:
        ModelNotFoundError: the files are not such a checkpoint, or not a complete one.
        BackendUnavailable: it does not fit into memory.

    """
    path = directory / "config.json"
    config = read_json_table(path, remedy=REMEDY)
    if is_transformers_format(config):
        if (difference := find_unsupported(config)) is not None:
            raise _rejection(directory, difference)
        sizes, files, _ = read_checkpoint(directory)
        dims = convert_config(sizes)
        weights: dict[str, Any] = {}
        for file in files:
            weights |= convert_weights(_read_weights(file))
    else:
        weights = _read_weights(_weights_file(directory))
        dims = read_json_table(path, _Dimensions, remedy=REMEDY)
    check_sizes(dims, _SIZES, weights, path=path, remedy=REMEDY)
    device = mx.default_device().type.name
    require_memory(
        str(directory),
        # Quantised weights are packed into words that no dtype changes.
        needed=sum(
            weight.size * dtype.size if mx.issubdtype(weight.dtype, mx.floating) else weight.nbytes
            for weight in weights.values()
        ),
        available=available_memory(device),
        device=device,
        remedy="choose a smaller model",
    )
    heads = _read_heads(directory, weights.pop(ALIGNMENT_HEADS, None))
    for part in ("audio", "text"):
        width, count = dims[f"n_{part}_state"], dims[f"n_{part}_head"]
        if width % (2 * count):
            raise _rejection(
                directory, f"config.json divides {width} {part} channels among {count} heads"
            )
    whisper = _new_modules(
        ModelDimensions(**{key: dims[key] for key in _Dimensions.__struct_fields__}), dtype
    )
    if (quantization := config.get("quantization")) is not None:
        _quantize(directory, whisper, quantization, weights)
    placed = {
        key: value.astype(dtype) if mx.issubdtype(value.dtype, mx.floating) else value
        for key, value in weights.items()
    }
    placed[ALIGNMENT_HEADS] = whisper.alignment_heads  # a parameter of the modules
    try:
        whisper.load_weights(list(placed.items()), strict=True)
        mx.eval(whisper.parameters())  # arrays of a file are read here
    except (RuntimeError, ValueError) as error:
        raise _rejection(
            directory, f"the weights do not fit config.json: {one_line(str(error))}"
        ) from error
    return LoadedModel(whisper=whisper, alignment_heads=heads)


def _new_modules(dims: ModelDimensions, dtype: mx.Dtype) -> Whisper:
    """
    Return the modules of a Whisper, with random weights that are never computed.

    A thread that ends here makes them.  A thread that has drawn random numbers can crash the
    process when both end together (mlx 0.32, ml-explore/mlx#4110), and the caller's may.
    """
    stream = mx.default_stream(mx.default_device())

    def make() -> Whisper:
        with mx.stream(stream):
            return Whisper(dims, dtype)

    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(make).result()


def _weights_file(directory: Path) -> Path:
    path = next((directory / name for name in WEIGHTS if (directory / name).is_file()), None)
    if path is None:
        found = ", ".join(sorted(entry.name for entry in directory.iterdir())[:MAX_NAMED])
        raise _rejection(directory, f"it has no {' or '.join(WEIGHTS)}, but {found}")
    return path


def _read_weights(path: Path) -> dict[str, mx.array]:
    """Return the arrays of a file by their names, with their shapes but not read yet."""
    try:
        weights: Any = mx.load(str(path))
    except (RuntimeError, ValueError) as error:
        reason = f"{path.name} cannot be read ({one_line(str(error))})"
        raise _rejection(path.parent, reason) from error
    return dict(weights)


def _read_heads(directory: Path, saved: mx.array | None) -> tuple[tuple[int, int], ...] | None:
    if saved is None:
        return None
    # Some converters save them as floating point, like everything else.
    pairs = np.array(saved.astype(mx.int32))
    if pairs.ndim != 2 or pairs.shape[1] != 2:  # noqa: PLR2004 -- layer and head
        raise _rejection(directory, f"{ALIGNMENT_HEADS} should be pairs, got shape {pairs.shape}")
    return tuple((int(layer), int(head)) for layer, head in pairs)


def _quantize(
    directory: Path, whisper: Whisper, settings: object, weights: Mapping[str, mx.array]
) -> None:
    """Turn the modules whose weights come with scales into quantised ones."""

    def is_quantised(path: str, module: nn.Module) -> bool:
        return isinstance(module, (nn.Linear, nn.Embedding)) and f"{path}.scales" in weights

    if not isinstance(settings, dict):
        raise _rejection(
            directory, f"quantization in config.json should be a table, got {settings!r}"
        )
    try:
        nn.quantize(whisper, **settings, class_predicate=is_quantised)
    except (TypeError, ValueError) as error:
        raise _rejection(
            directory, f"it is quantised in an unknown way ({one_line(str(error))})"
        ) from error


def _rejection(directory: Path, reason: str) -> ModelNotFoundError:
    return ModelNotFoundError(
        f"{directory} is not a Whisper in mlx-whisper's format (config.json with "
        f"weights.safetensors or weights.npz) or in transformers': {reason}; {REMEDY}"
    )
