"""Load the weights of a directory, all of them or none, into the modules of mlx-whisper."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import attrs
from mlx import nn
import mlx.core as mx
from mlx_whisper.whisper import ModelDimensions, Whisper
import numpy as np

from wlk_core.frameworks.memory import require_memory
from wlk_core.frameworks.mlx import available_memory
from wlk_core.models import (
    LayerCount,
    TensorHeader,
    TensorSize,
    check_sizes,
    read_json_table,
    read_safetensors_header,
    read_safetensors_headers,
)
from wlk_core.plugins import ModelNotFoundError
from wlk_whisper.engine.transformers_config import check_config, read_config
from wlk_whisper.engine.weight_files import weight_files
from wlk_whisper.mlx.npz_header import read_npz_header
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
# mlx-whisper computes the sinusoids of its encoder, so that no weights have their number.
MAX_AUDIO_POSITIONS = 30_000  # ten minutes; every Whisper has 1,500
_SIZES = (
    LayerCount("n_audio_layer", ("encoder.blocks.",)),
    LayerCount("n_text_layer", ("decoder.blocks.",)),
    TensorSize("n_audio_state", ("encoder.ln_post.bias",)),
    TensorSize("n_text_state", ("decoder.ln.bias",)),
    TensorSize("n_mels", ("encoder.conv1.weight",), axis=2),
    TensorSize("n_vocab", ("decoder.token_embedding.weight",)),
    TensorSize("n_text_ctx", ("decoder.positional_embedding",)),
)
DIMENSIONS = tuple(ModelDimensions.__dataclass_fields__)
MAX_NAMED = 3  # culprits that an error message lists
MAX_QUOTED = 200  # characters of a message of MLX


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
    config = read_json_table(directory / "config.json", remedy=REMEDY)
    quantization = config.get("quantization")
    if is_transformers_format(config):
        if (difference := find_unsupported(config)) is not None:
            raise _rejection(directory, difference)
        dims = _read_dimensions(directory, convert_config(config))
        files = weight_files(directory, backend="whisper")
        tensors = read_safetensors_headers(files)
        check_config(directory, read_config(directory), tensors)
        _require_memory(directory, tensors, dtype)
        weights: dict[str, mx.array] = {}
        for file in files:
            weights |= convert_weights(_read_weights(file))
    else:
        dims = _read_dimensions(directory, config)
        weights = _read_own_format(directory, config, dtype)
    heads = _read_heads(directory, weights.pop(ALIGNMENT_HEADS, None))
    whisper = _new_modules(dims, dtype)
    if quantization is not None:
        _quantize(directory, whisper, quantization, weights)
    placed = {
        key: value.astype(dtype) if mx.issubdtype(value.dtype, mx.floating) else value
        for key, value in weights.items()
    }
    placed[ALIGNMENT_HEADS] = whisper.alignment_heads  # a parameter of the modules
    try:
        whisper.load_weights(list(placed.items()), strict=True)
    except ValueError as error:
        raise _rejection(
            directory, f"the weights do not fit config.json: {_one_line(error)}"
        ) from error
    mx.eval(whisper.parameters())
    return LoadedModel(whisper=whisper, alignment_heads=heads)


def _read_own_format(
    directory: Path, config: Mapping[str, Any], dtype: mx.Dtype
) -> dict[str, mx.array]:
    """Return the weights in mlx-whisper's format, whose sizes are those of *config*."""
    positions = config["n_audio_ctx"]
    if positions > MAX_AUDIO_POSITIONS:
        raise _rejection(
            directory, f"config.json has n_audio_ctx={positions}, more than {MAX_AUDIO_POSITIONS}"
        )
    file = _weights_file(directory)
    is_npz = file.suffix == ".npz"
    tensors = read_npz_header(file) if is_npz else read_safetensors_header(file)
    check_sizes(config, _SIZES, tensors, path=directory / "config.json", remedy=REMEDY)
    _require_memory(directory, tensors, dtype)
    return _read_weights(file)


def _require_memory(directory: Path, tensors: Mapping[str, TensorHeader], dtype: mx.Dtype) -> None:
    device = mx.default_device().type.name
    require_memory(
        str(directory),
        needed=sum(tensor.size for tensor in tensors.values()) * dtype.size,
        available=available_memory(device),
        device=device,
        remedy="choose a smaller model",
    )


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


def _read_dimensions(directory: Path, config: Mapping[str, Any]) -> ModelDimensions:
    missing = [key for key in DIMENSIONS if type(config.get(key)) is not int or config[key] < 1]
    if missing:
        raise _rejection(directory, f"config.json gives no number for {_some(missing)}")
    for part in ("audio", "text"):
        width, heads = config[f"n_{part}_state"], config[f"n_{part}_head"]
        if width % (2 * heads):
            raise _rejection(
                directory, f"config.json divides {width} {part} channels among {heads} heads"
            )
    return ModelDimensions(**{key: config[key] for key in DIMENSIONS})


def _weights_file(directory: Path) -> Path:
    path = next((directory / name for name in WEIGHTS if (directory / name).is_file()), None)
    if path is None:
        found = sorted(entry.name for entry in directory.iterdir())
        raise _rejection(directory, f"it has no {' or '.join(WEIGHTS)}, but {_some(found)}")
    return path


def _read_weights(path: Path) -> dict[str, mx.array]:
    try:
        weights = mx.load(str(path))
        mx.eval(weights)
    except (RuntimeError, ValueError) as error:
        reason = f"{path.name} cannot be read ({_one_line(error)})"
        raise _rejection(path.parent, reason) from error
    if not isinstance(weights, dict):
        raise _rejection(path.parent, f"{path.name} contains no named weights")
    return weights


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
            directory, f"it is quantised in an unknown way ({_one_line(error)})"
        ) from error


def _rejection(directory: Path, reason: str) -> ModelNotFoundError:
    return ModelNotFoundError(
        f"{directory} is not a Whisper in mlx-whisper's format (config.json with "
        f"weights.safetensors or weights.npz) or in transformers': {reason}; {REMEDY}"
    )


def _some(names: list[str]) -> str:
    rest = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "") or "nothing"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:MAX_QUOTED]
