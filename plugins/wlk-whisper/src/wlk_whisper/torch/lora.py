"""Merge LoRA adapters into the model when it is loaded, so that streams cost no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
import warnings

from safetensors import SafetensorError
from safetensors.torch import load_file

from wlk_core.plugins import BackendUnavailable, OptionError
from wlk_core.untrusted import one_line
from wlk_frameworks.checkpoints import read_json_table

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

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"


def merge_adapter(
    whisper: WhisperForConditionalGeneration, directory: Path
) -> WhisperForConditionalGeneration:
    """
    Return *whisper* with the adapter in *directory* added to its weights.

    Only safetensors in a local directory are read, and all of the adapter must fit the model.

    Raises:
        OptionError: the adapter is missing, is not LoRA or belongs to another model; *whisper* must
            then be discarded.

    """
    missing_files = [name for name in (CONFIG, WEIGHTS) if not (directory / name).is_file()]
    if missing_files:
        raise OptionError(
            f"lora_path={directory}: expected a directory with {CONFIG} and {WEIGHTS}, as peft's "
            f"save_pretrained writes them, but it has no {' and no '.join(missing_files)}"
        )
    # Checked first, because peft raises KeyError for a kind of adapter that it does not know.
    table = read_json_table(
        directory / CONFIG,
        remedy="save the adapter again with peft's save_pretrained",
        error=OptionError,
    )
    if table.get("peft_type") != "LORA":
        raise OptionError(
            f"lora_path={directory}: expected an adapter whose {CONFIG} has peft_type LORA, got "
            f"{table.get('peft_type')!r}; merge adapters of other kinds into the model with peft "
            "and load the result"
        )
    try:
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
            f"{one_line(str(error))}; choose an adapter of this model, or the adapter's model"
        ) from error
    missing = [name for name in result.missing_keys if "lora_" in name]
    unfit = sorted((*missing, *result.unexpected_keys))
    if unfit:
        raise OptionError(
            f"lora_path={directory}: the adapter does not fit the model: {len(unfit)} weights are "
            f"missing or unknown, such as {unfit[0]}; choose an adapter of this model, or the "
            "adapter's model"
        )
    merged: WhisperForConditionalGeneration = adapted.merge_and_unload()
    merged.requires_grad_(requires_grad=False)
    return merged
