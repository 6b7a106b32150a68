"""Load a directory of Qwen3-ASR in either layout, all of it or not at all."""

from __future__ import annotations

from contextlib import contextmanager
import json
import sys
from typing import TYPE_CHECKING, Any

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import Qwen3ASRConfig, Qwen3ASRForConditionalGeneration
from transformers.utils import logging

from wlk_core import ModelNotFoundError
from wlk_qwen3_simul.audio.frames import CHUNK_FRAMES
from wlk_qwen3_simul.checkpoint import ties_head
from wlk_qwen3_simul.torch_attention import NAME, register

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import torch

__all__ = ["load_model"]

# From the names of the original layout to those of transformers; its own match none of these.
_NAMES = {
    r"^thinker\.model\.": "model.language_model.",
    r"^thinker\.audio_tower\.proj1\.": "model.multi_modal_projector.linear_1.",
    r"^thinker\.audio_tower\.proj2\.": "model.multi_modal_projector.linear_2.",
    r"^thinker\.audio_tower\.": "model.audio_tower.",
    r"^thinker\.lm_head\.": "lm_head.",
}
_UNKNOWN_THERE = ("architectures", "conv_chunksize", "max_source_positions", "model_type")
CHUNK_TOKENS = 13
# Half of what transformers does is not in its types.
_MODELS: Any = Qwen3ASRForConditionalGeneration
_LOGGING: Any = logging
# What a config.json raises on the way to a model that holds a word for a number, or no such layer.
_ODD = (
    ArithmeticError,
    AttributeError,
    KeyError,
    RuntimeError,
    StrictDataclassError,
    TypeError,
    ValueError,
)


def load_model(
    directory: Path, *, device: torch.device, dtype: torch.dtype
) -> Qwen3ASRForConditionalGeneration:
    """
    Load the Qwen3-ASR in *directory* on *device*, its weights as *dtype*.

    Both the original layout (`thinker.*`) and that of the `-hf` repositories.  Every parameter must
    be there, and nothing else: a model with random weights would say something, too.

    Raises:
        ModelNotFoundError: the directory holds no such model; the message says what is wrong.

    """
    register()
    config = _config(directory)
    model: Any
    try:
        with _quiet():
            model, told = _MODELS.from_pretrained(
                directory,
                config=config,
                key_mapping=_NAMES,
                dtype=dtype,
                output_loading_info=True,
                use_safetensors=True,
                local_files_only=True,
            )
    except (OSError, SafetensorError, *_ODD) as error:
        raise ModelNotFoundError(
            f"the weights in {directory} cannot be loaded: {' '.join(str(error).split())[:300]}; "
            "pull the model again"
        ) from error
    _check(directory, told)
    _check_head(directory, model)
    model.set_attn_implementation({"audio_config": "sdpa", "text_config": NAME})
    model.to(device)
    model.train(mode=False)
    model.requires_grad_(requires_grad=False)
    loaded: Qwen3ASRForConditionalGeneration = model
    return loaded


@contextmanager
def _quiet() -> Iterator[None]:
    """Show the progress of transformers on a terminal only, and its table of keys not at all."""
    level, shows = _LOGGING.get_verbosity(), _LOGGING.is_progress_bar_enabled()
    _LOGGING.set_verbosity_error()  # what its warnings say is an error here, see _check
    if not sys.stderr.isatty():
        _LOGGING.disable_progress_bar()
    try:
        yield
    finally:
        _LOGGING.set_verbosity(level)
        if shows:
            _LOGGING.enable_progress_bar()


def _config(directory: Path) -> Qwen3ASRConfig:
    path = directory / "config.json"
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told.get("model_type") != "qwen3_asr":
            raise ModelNotFoundError(
                f"expected a Qwen3-ASR in {directory}, and its config.json says "
                f"model_type={told.get('model_type')!r}"
            )
        config = _translated(told) if "thinker_config" in told else Qwen3ASRConfig.from_dict(told)
    except (OSError, *_ODD) as error:
        raise ModelNotFoundError(
            f"{path} describes no Qwen3-ASR: {' '.join(str(error).split())}; pull the model again"
        ) from error
    audio: Any = config.audio_config
    chunk, window = 2 * audio.n_window, audio.n_window_infer
    if chunk != CHUNK_FRAMES or window % chunk:
        raise ModelNotFoundError(
            f"{path}: expected chunks of {CHUNK_FRAMES} mel frames and windows of whole chunks, "
            f"got {chunk} and {window}; this is no Qwen3-ASR as it was published"
        )
    return config


def _translated(told: dict[str, Any]) -> Qwen3ASRConfig:
    """Return the config of the original layout in the words of transformers."""
    thinker = told["thinker_config"]
    audio = {k: v for k, v in thinker["audio_config"].items() if k not in _UNKNOWN_THERE}
    text = {k: v for k, v in thinker["text_config"].items() if k not in _UNKNOWN_THERE}
    theta = text.pop("rope_theta", 1e6)
    # Its rows of positions are all alike for sound: what is left is the plain rotation.
    text.pop("rope_scaling", None)
    text["rope_parameters"] = {"rope_type": "default", "rope_theta": theta}
    return Qwen3ASRConfig(
        audio_config={
            **audio,
            "model_type": "qwen3_asr_encoder",
            "max_position_embeddings": CHUNK_TOKENS,
        },
        text_config={**text, "model_type": "qwen3"},
        audio_token_id=thinker.get("audio_token_id", 151676),
        tie_word_embeddings=ties_head(told),
    )


def _check(directory: Path, told: dict[str, Any]) -> None:
    """Raise ModelNotFoundError unless the weights fit the config key for key."""
    wrong = []
    for kind, claim in (
        ("missing_keys", "missing"),
        ("unexpected_keys", "unknown"),
        ("mismatched_keys", "of another shape"),
        ("error_msgs", "unreadable"),
    ):
        keys = sorted({str(key) for key in told.get(kind) or ()})
        if keys:
            more = ", ..." if len(keys) > 2 else ""  # noqa: PLR2004 -- two examples
            wrong.append(f"{len(keys)} {claim} ({', '.join(keys[:2])}{more})")
    if wrong:
        raise ModelNotFoundError(
            f"the weights in {directory} do not fit its config.json: {'; '.join(wrong)}; "
            "pull the model again"
        )


def _check_head(directory: Path, model: Qwen3ASRForConditionalGeneration) -> None:
    """Raise ModelNotFoundError where a head that is to be the embedding is another in the file."""
    embedding = model.get_input_embeddings().weight
    # transformers ties them unless the file holds both and they differ.
    if model.config.tie_word_embeddings and model.lm_head.weight is not embedding:
        raise ModelNotFoundError(
            f"the weights in {directory} hold an lm_head of their own, and its config.json says "
            "that it is the embedding; pull the model again"
        )
