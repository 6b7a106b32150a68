"""Load a directory of Qwen3-ASR with mlx-qwen3-asr, all of it or not at all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx.utils import tree_map
from mlx_qwen3_asr import load_model as load_files

from wlk_core import ModelNotFoundError
from wlk_qwen3_simul.audio.frames import CHUNK_FRAMES
from wlk_qwen3_simul.checkpoint import ties_head

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DTYPES", "load_model"]

# What mlx-qwen3-asr raises over files that are damaged, or a config of something else.
_ODD = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    KeyError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}


def load_model(directory: Path, *, dtype: Any) -> Any:
    """
    Load the Qwen3-ASR in *directory*, in the original layout, its weights as *dtype*.

    Every parameter must be there, and nothing else: a model with random weights would say
    something, too.

    Raises:
        ModelNotFoundError: the directory holds no such model; the message says what is wrong.

    """
    told = _check_layout(directory)
    try:
        model, config = load_files(str(directory), dtype=dtype)
        is_told, is_embedding = _head(directory)
    except _ODD as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ModelNotFoundError(
            f"the weights in {directory} cannot be loaded: {reason[:300]}; pull the model again"
        ) from error
    if is_told and not is_embedding and config.text_config.tie_word_embeddings:
        raise ModelNotFoundError(
            f"the weights in {directory} hold an lm_head of their own, and its config.json says "
            "that it is the embedding; pull the model again"
        )
    if not is_told and not ties_head(told):
        raise ModelNotFoundError(
            f"the weights in {directory} hold no lm_head, and its config.json says that it is not "
            "the embedding; pull the model again"
        )
    audio = config.audio_config
    chunk, window = 2 * audio.n_window, audio.n_window_infer
    if chunk != CHUNK_FRAMES or window % chunk:
        raise ModelNotFoundError(
            f"{directory / 'config.json'}: expected chunks of {CHUNK_FRAMES} mel frames and "
            f"windows of whole chunks, got {chunk} and {window}; this is no Qwen3-ASR as it was "
            "published"
        )
    # What is stored in half precision stays so unless it is told otherwise.
    model.update(tree_map(lambda one: _as(one, dtype), model.parameters()))
    mx.eval(model.parameters())
    return model


def _as(weights: Any, dtype: Any) -> Any:
    is_number = isinstance(weights, mx.array) and mx.issubdtype(weights.dtype, mx.floating)
    return weights.astype(dtype) if is_number else weights


def _head(directory: Path) -> tuple[bool, bool]:
    """Tell whether the weights hold an lm_head, and whether it may stand for the embedding."""
    weights: dict[str, Any] = {}
    for file in sorted(directory.glob("*.safetensors")):
        loaded: Any = mx.load(str(file))  # read when it is asked for
        weights.update((key.removeprefix("thinker."), one) for key, one in loaded.items())
    head, embedding = weights.get("lm_head.weight"), weights.get("model.embed_tokens.weight")
    if head is None or embedding is None:
        return head is not None, False
    # One that was quantised apart is kept as it is.
    return True, "lm_head.scales" in weights or bool(mx.array_equal(head, embedding))


def _check_layout(directory: Path) -> dict[str, Any]:
    path = directory / "config.json"
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelNotFoundError(f"{path} cannot be read: {error}; pull the model again") from error
    told = told if isinstance(told, dict) else {}
    kind = told.get("model_type")
    if kind != "qwen3_asr":
        raise ModelNotFoundError(
            f"expected a Qwen3-ASR in {directory}, and its config.json says model_type={kind!r}"
        )
    if "thinker_config" not in told:
        raise ModelNotFoundError(
            f"{directory} is in the layout of transformers, which mlx-qwen3-asr does not read; use "
            "the original repository, such as Qwen/Qwen3-ASR-0.6B, or the backend qwen3-simul"
        )
    return told
