"""Load a model with the package voxmlx, for our own forward passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wlk_core.errors import BackendUnavailable, ModelNotFoundError
from wlk_voxtral_mlx.mlx.weights import WeightError, evaluate

if TYPE_CHECKING:
    from pathlib import Path

    import mlx.core as mx

    from wlk_voxtral.weight_names import Layout

READABLE = ("Mistral", "voxmlx")


def load_voxmlx(directory: Path, layout: Layout | None, *, dtype: mx.Dtype | None) -> Any:
    """
    Load a model with voxmlx.

    Only its modules are used, because its own streaming skips audio at the start and never applies
    the attention window of the encoder.

    Raises:
        BackendUnavailable: voxmlx is not installed.
        ModelNotFoundError: voxmlx cannot read the layout.
        WeightError: weights are missing, or have other sizes than the configuration.
        MemoryError: they do not fit into memory.

    """
    if layout not in READABLE:
        raise ModelNotFoundError(
            f"the layout of {directory} is {layout or 'unknown'}, but voxmlx reads only "
            f"{' and '.join(READABLE)}; leave engine=voxmlx out"
        )
    try:
        from voxmlx.weights import load_model  # noqa: PLC0415 -- optional
    except ImportError as error:
        raise BackendUnavailable(
            "engine=voxmlx needs the package voxmlx: pip install 'wlk-voxtral-mlx[voxmlx]', or "
            f"leave the engine out ({error})"
        ) from error
    try:
        model, _ = load_model(directory)
    except ValueError as error:
        raise WeightError.of(error) from error
    except RuntimeError as error:  # MLX has no exception of its own for too little memory
        raise MemoryError(str(error)) from error
    if dtype is not None:
        model.set_dtype(dtype)
    evaluate(model)
    return model
