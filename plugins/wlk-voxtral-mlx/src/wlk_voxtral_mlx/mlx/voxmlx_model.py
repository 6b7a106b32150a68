"""The model of the package voxmlx: its modules with its weights, for our forward passes."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx.utils import tree_flatten

from wlk_core.errors import BackendUnavailable, ModelNotFoundError
from wlk_voxtral_mlx.mlx.weights import WeightError, evaluate

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_voxtral.weight_names import Layout

__all__ = ["load_voxmlx", "require_voxmlx"]

READABLE = ("Mistral", "voxmlx")


def require_voxmlx() -> None:
    """
    Make sure that voxmlx is installed.

    Raises:
        BackendUnavailable: it is absent.

    """
    if find_spec("voxmlx") is None:
        raise BackendUnavailable(
            "engine=voxmlx needs the package voxmlx: pip install 'wlk-voxtral-mlx[voxmlx]', or "
            "leave the engine out"
        )


def load_voxmlx(directory: Path, layout: Layout | None, *, dtype: mx.Dtype | None) -> Any:
    """
    Load a model with voxmlx.

    Only its tree of modules is used, because its own streaming skips audio at the start and never
    applies the window of the encoder.

    Raises:
        ModelNotFoundError: it cannot read the layout.
        WeightError: weights are missing, or have other sizes than the configuration.
        MemoryError: they do not fit into memory.

    """
    if layout not in READABLE:
        raise ModelNotFoundError(
            f"{directory} is in the layout of {layout or 'no Voxtral'}, and voxmlx reads those of "
            f"{' and '.join(READABLE)}; leave engine=voxmlx out"
        )
    from voxmlx.weights import load_model  # noqa: PLC0415 -- optional

    try:
        model, _ = load_model(directory)
    except ValueError as error:
        raise WeightError.of(error) from error
    except RuntimeError as error:  # MLX has no exception of its own for a lack of memory
        raise MemoryError(str(error)) from error
    if dtype is not None:
        weights: Any = tree_flatten(model.parameters())
        cast = [
            (name, value.astype(dtype))
            for name, value in weights
            if mx.issubdtype(value.dtype, mx.floating)
        ]
        model.load_weights(cast, strict=False)
    evaluate(model)
    return model
