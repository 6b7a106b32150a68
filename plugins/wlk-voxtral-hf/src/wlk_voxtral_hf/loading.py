"""A model of transformers out of a directory, whole or not at all."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
import torch
from transformers import VoxtralRealtimeForConditionalGeneration
from transformers.utils import logging as transformers_logging

from wlk_core import BackendUnavailable, ModelNotFoundError
from wlk_voxtral_hf.memory import bytes_of, memory_of, require_memory, too_little

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["device_of", "load_network"]

_UNREADABLE = (
    OSError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    RuntimeError,
    SafetensorError,
    StrictDataclassError,  # a configuration whose values have other types
)


def device_of(asked: str) -> str:
    """
    Return the device for auto, cpu, cuda or mps.

    Raises:
        BackendUnavailable: there is none.

    """
    if asked == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    if asked == "cuda" and not torch.cuda.is_available():
        raise BackendUnavailable(
            "device=cuda was asked for and torch sees no CUDA device; check nvidia-smi and that "
            "torch is a CUDA build, or leave the device out"
        )
    if asked == "mps" and not torch.backends.mps.is_available():
        raise BackendUnavailable(
            "device=mps was asked for and torch sees no Apple GPU; leave the device out"
        )
    return asked


def load_network(directory: Path, device: str, dtype: torch.dtype) -> Any:
    """
    Load a Voxtral Realtime model for inference.

    Raises:
        ModelNotFoundError: the files are damaged, or hold other weights than the model has.
        BackendUnavailable: it does not fit into memory.

    """
    try:
        require_memory(directory, device, dtype)
        with _quietly():
            told: Any = VoxtralRealtimeForConditionalGeneration.from_pretrained(
                directory,
                dtype=dtype,
                local_files_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # told below, in one line
            )
        model, report = told
        _check_whole(directory, report)
        return model.eval().requires_grad_(False).to(device)
    except _UNREADABLE as error:
        if isinstance(error, torch.OutOfMemoryError | MemoryError) or "memory" in str(error):
            needed = bytes_of(directory, dtype)
            reason = too_little(directory, device, dtype, needed, memory_of(device))
            raise BackendUnavailable(reason) from error
        raise ModelNotFoundError(
            f"{directory} could not be loaded as a Voxtral Realtime model: {_first_line(error)}; "
            "convert or pull it again"
        ) from error


def _check_whole(directory: Path, report: dict[str, Any]) -> None:
    """Refuse a model some of whose weights transformers made up: it would say anything."""
    missing = sorted(report["missing_keys"])
    odd = sorted(report["mismatched_keys"])
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        reason = f"it lacks {missing[0]}{more}"
    elif odd:
        name, came, expected = odd[0]
        reason = f"{name} has the shape {tuple(came)}, expected {tuple(expected)}"
    else:
        return
    raise ModelNotFoundError(
        f"{directory} is in the layout of transformers and could not be loaded: {reason}; "
        "pull the model again"
    )


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]) or type(error).__name__


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep transformers from bars and tables where nobody looks, and leave it as it was."""
    said: Any = transformers_logging
    had_bars, level = said.is_progress_bar_enabled(), said.get_verbosity()
    said.disable_progress_bar()
    said.set_verbosity_error()
    try:
        yield
    finally:
        said.set_verbosity(level)
        if had_bars:
            said.enable_progress_bar()
