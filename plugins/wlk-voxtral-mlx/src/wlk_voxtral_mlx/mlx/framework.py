"""Whether MLX runs here: on Linux its bare wheel imports nothing that works."""

from __future__ import annotations

from wlk_core import BackendUnavailable

__all__ = ["require_mlx"]


def require_mlx() -> None:
    """
    Make sure that MLX has a back end that computes.

    Raises:
        BackendUnavailable: it has none, or is not installed.

    """
    try:
        import mlx.core as mx  # noqa: PLC0415 -- what is probed

        mx.eval(mx.zeros((1,)))
    except (ImportError, OSError, RuntimeError) as error:
        raise BackendUnavailable(
            f"mlx does not run here ({error}); its bare wheel has no back end on Linux: "
            "pip install 'wlk-voxtral-mlx[cpu]', or [cuda] with an NVIDIA driver"
        ) from error
