"""LoRA adapters, merged into the model when it is loaded, so that streams cost no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
import warnings

from msgspec import Meta, Struct
from safetensors import SafetensorError
from safetensors.torch import load_file

from wlk_core.models import read_json_table, read_safetensors_header
from wlk_core.plugins import BackendUnavailable, ModelNotFoundError, OptionError

try:
    from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
except ImportError as error:
    raise BackendUnavailable(
        "the option lora_path needs peft, which is not installed; install it with: "
        "pip install 'wlk-whisper[lora]'"
    ) from error

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import WhisperForConditionalGeneration

__all__ = ["merge_adapter"]

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
MAX_RANK = 4096  # of the two matrices of an adapter; usual ranks are 8 to 256
DEFAULT_RANK = 8  # of peft
_Rank = Annotated[int, Meta(ge=1, le=MAX_RANK)]


class _Config(Struct):
    peft_type: str | None = None
    r: _Rank | None = None
    rank_pattern: dict[str, _Rank] | None = None


def merge_adapter(
    whisper: WhisperForConditionalGeneration, directory: Path
) -> WhisperForConditionalGeneration:
    """
    Return *whisper* with the adapter in *directory* added to its weights.

    The adapter is read from a local directory and from safetensors, and all of it must fit the
    model.

    Raises:
        OptionError: the adapter is missing, of another kind or of another model; *whisper* must
            then be discarded.

    """
    missing_files = [name for name in (CONFIG, WEIGHTS) if not (directory / name).is_file()]
    if missing_files:
        raise OptionError(
            f"lora_path={directory}: expected a directory with {CONFIG} and {WEIGHTS}, as peft's "
            f"save_pretrained writes them, and it has no {' and no '.join(missing_files)}"
        )
    _require_lora(directory)
    _require_ranks(directory)
    try:
        # Only calls of safetensors and peft, which raise these for an adapter of another model.
        state = load_file(directory / WEIGHTS)
        config = LoraConfig.from_pretrained(str(directory))
        with warnings.catch_warnings():
            # peft 0.21 uses a name that transformers 5 deprecates.
            warnings.filterwarnings("ignore", message=".is_gradient_checkpointing. is deprecated")
            adapted = get_peft_model(whisper, config)
        result: Any = set_peft_model_state_dict(adapted, state)  # a namedtuple without types
    except (SafetensorError, RuntimeError, TypeError, ValueError) as error:
        raise OptionError(
            f"lora_path={directory}: the adapter does not fit the model: "
            f"{' '.join(str(error).split())[:200]}; give the adapter of this model, or its model"
        ) from error
    missing = [name for name in result.missing_keys if "lora_" in name]
    unfit = sorted((*missing, *result.unexpected_keys))
    if unfit:
        raise OptionError(
            f"lora_path={directory}: the adapter does not fit the model: {len(unfit)} weights are "
            f"missing or unknown, such as {unfit[0]}; give the adapter of this model, or its model"
        )
    merged: WhisperForConditionalGeneration = adapted.merge_and_unload()
    merged.requires_grad_(requires_grad=False)
    return merged


def _require_lora(directory: Path) -> None:
    """Check the kind first, because peft raises KeyError for a kind that it does not know."""
    config = read_json_table(
        directory / CONFIG,
        _Config,
        remedy="save the adapter again with peft's save_pretrained",
        error=OptionError,
    )
    kind = config.get("peft_type")
    if kind != "LORA":
        raise OptionError(
            f"lora_path={directory}: expected an adapter whose {CONFIG} has peft_type LORA, "
            f"got {kind!r}; merge adapters of other kinds into the model with peft and load that"
        )


def _require_ranks(directory: Path) -> None:
    """Check that the config asks for no more than the weights have, before peft allocates it."""
    try:
        tensors = read_safetensors_header(directory / WEIGHTS)
    except ModelNotFoundError as error:
        raise OptionError(
            f"lora_path={directory}: the adapter does not fit the model: {error}"
        ) from error
    config = read_json_table(directory / CONFIG, _Config, error=OptionError)
    ranks = {tensor.shape[0] for name, tensor in tensors.items() if ".lora_A." in name}
    declared = {config.get("r") or DEFAULT_RANK, *(config.get("rank_pattern") or {}).values()}
    if ranks and not declared <= ranks | {DEFAULT_RANK}:
        raise OptionError(
            f"lora_path={directory}: the adapter does not fit the model: {CONFIG} has ranks of "
            f"{_numbers(declared)}, and the weights have {_numbers(ranks)}; save the adapter again "
            "with peft's save_pretrained"
        )


def _numbers(values: set[int]) -> str:
    return ", ".join(map(str, sorted(values)[:4]))
