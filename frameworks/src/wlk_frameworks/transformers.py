"""Load models of transformers on torch, and refuse those that are incomplete or damaged."""

from __future__ import annotations

from contextlib import contextmanager
import logging
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from transformers.utils import logging as transformers_logging

from wlk_core.errors import ModelNotFoundError
from wlk_core.plugins import locate
from wlk_core.untrusted import reason
from wlk_frameworks.checkpoints import (
    REMEDY,
    read_json_table,
    read_safetensors_headers,
    weight_names,
)
from wlk_frameworks.memory import out_of_memory, require_memory
from wlk_frameworks.torch import available_memory, choose_device, choose_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from wlk_core.plugins import BackendSpec
    from wlk_frameworks.checkpoints import TensorHeader

logger = logging.getLogger(__name__)

_LOGGING: Any = transformers_logging  # half of its interface is not annotated


class Declared(Protocol):
    """What a plugin reads from the files of a model besides its weights."""

    @property
    def dtype(self) -> str | None:
        """The name of the number format that the model is meant for; None if it names none."""
        ...


D_co = TypeVar("D_co", bound=Declared, covariant=True)
W_co = TypeVar("W_co", covariant=True)


class _Read(Protocol[D_co]):
    def __call__(self, directory: Path, /, *, name: str) -> D_co: ...


class _LoadModel(Protocol[W_co]):
    def __call__(self, directory: Path, /, *, device: torch.device, dtype: torch.dtype) -> W_co: ...


def find_and_load(
    spec: BackendSpec,
    model: str,
    *,
    bundled: Mapping[str, Path],
    read: _Read[D_co],
    load_model: _LoadModel[W_co],
    device: str = "auto",
    dtype: str = "auto",
    cache_dir: str | None = None,
    needs: Sequence[str] = ("config.json",),
) -> tuple[D_co, W_co]:
    """
    Find *model*; return what *read* reads from its directory, and what *load_model* loads from it.

    *device*, *dtype* and *cache_dir* are the options; *bundled* and *needs* are those of `locate`.
    `dtype` "auto" is the declared one, or else the default of `choose_dtype`.

    Raises:
        ModelNotFoundError: the model is missing, or one of the functions refuses it.
        BackendUnavailable: the device is missing, or has too little memory.

    """
    torch_device = choose_device(device)
    directory = locate(model, spec=spec, bundled=bundled, cache_dir=cache_dir, needs=needs)
    declared = read(directory, name=model)
    torch_dtype = choose_dtype(
        dtype, device=torch_device, declared=declared.dtype, accelerated=torch.bfloat16
    )
    loaded = load_model(directory, device=torch_device, dtype=torch_dtype)
    logger.info("%s runs in %s on %s", model, torch_dtype, torch_device)
    return declared, loaded


def load_checked(
    model_class: Any,
    directory: Path,
    fields: Mapping[str, Any],
    *,
    kind: str,
    check: Callable[[Mapping[str, Any], Mapping[str, TensorHeader]], None],
    device: torch.device,
    dtype: torch.dtype,
    alternative: str = "another device",
    key_mapping: Mapping[str, str] | None = None,
    allows_more: bool = False,
) -> Any:
    """
    Load a model of transformers for inference, every weight from the files in *directory*.

    Nothing is filled in at random, because a model with random weights would still emit text.

    Args:
        model_class: the class of the model.
        directory: its directory, with weights in safetensors.
        fields: its config, with the keys that the class of its config reads.
        kind: what it is, such as "a Whisper", for error messages.
        check: raises ModelNotFoundError unless the sizes in a config match the weights.
        device: where to run it.
        dtype: the number format of its weights.
        alternative: what helps if the device has too little memory, besides a smaller dtype.
        key_mapping: from patterns of weight names to those of the class; see `from_pretrained`.
        allows_more: whether the files may contain weights that the model does not have.

    Raises:
        ModelNotFoundError: the files are missing or damaged, or contradict each other.
        BackendUnavailable: the model does not fit into memory.

    """
    tensors = read_safetensors_headers(directory / name for name in weight_names(directory))
    check(fields, tensors)  # first, because a config allocates a list as long as its layers
    generation_config = directory / "generation_config.json"
    if generation_config.exists():
        read_json_table(generation_config)  # transformers reads it too, and would not name the file
    try:
        config = model_class.config_class.from_dict(dict(fields))
    except Exception as error:
        raise ModelNotFoundError(
            f"{directory / 'config.json'} does not describe {kind}: {reason(error)}; {REMEDY}"
        ) from error
    # transformers accepts several names for a size, and the last one in the file counts.
    check(config.to_dict(), tensors)
    name = f"{directory} in {str(dtype).removeprefix('torch.')}"
    smaller = "" if dtype.itemsize < torch.float32.itemsize else "dtype=bfloat16, "
    memory: dict[str, Any] = {
        "needed": sum(tensor.size for tensor in tensors.values()) * dtype.itemsize,
        "available": available_memory(device),
        "device": device.type,
        "remedy": f"choose {smaller}{alternative}",
    }
    require_memory(name, **memory)
    try:
        with _explained(directory, kind), quiet_loading():
            model, report = model_class.from_pretrained(
                directory,
                config=config,
                key_mapping=key_mapping,
                dtype=dtype,
                local_files_only=True,
                output_loading_info=True,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # _check_keys reports them in one line
            )
        model.to(device)
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise out_of_memory(name, **memory) from error
    _check_keys(directory, report, allows_more=allows_more)
    return model.eval().requires_grad_(False)


@contextmanager
def _explained(directory: Path, kind: str) -> Iterator[None]:
    """Raise the errors of transformers, other than too little memory, in one line."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise ModelNotFoundError(
            f"{directory} could not be loaded as {kind}: {reason(error)}; {REMEDY}"
        ) from error


def _check_keys(directory: Path, report: Mapping[str, Any], *, allows_more: bool) -> None:
    """Raise ModelNotFoundError unless the weights fit the config key for key."""
    shapes = sorted(report.get("mismatched_keys") or ())
    faults = {
        "missing": sorted(report.get("missing_keys") or ()),
        "unknown": [] if allows_more else sorted(report.get("unexpected_keys") or ()),
        "of another shape": [
            f"{name} has {tuple(shape)}, expected {tuple(expected)}"
            for name, shape, expected in shapes
        ],
        "unreadable": sorted(map(str, report.get("error_msgs") or ())),
    }
    parts = [
        f"{len(keys)} {claim} ({', '.join(keys[:2])}{', ...' if len(keys) > len(keys[:2]) else ''})"
        for claim, keys in faults.items()
        if keys
    ]
    if parts:
        raise ModelNotFoundError(
            f"the weights in {directory} do not fit its config.json: {'; '.join(parts)}; {REMEDY}"
        )


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Switch off the progress bars and tables of transformers, and restore them at the end."""
    had_bars, level = _LOGGING.is_progress_bar_enabled(), _LOGGING.get_verbosity()
    _LOGGING.disable_progress_bar()
    _LOGGING.set_verbosity_error()
    try:
        yield
    finally:
        _LOGGING.set_verbosity(level)
        if had_bars:
            _LOGGING.enable_progress_bar()
