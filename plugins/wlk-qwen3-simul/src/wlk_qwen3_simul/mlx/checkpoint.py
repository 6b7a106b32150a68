"""Loading of a Qwen3-ASR directory with mlx-qwen3-asr, complete or not at all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import mlx.core as mx
from mlx.utils import tree_map
from mlx_qwen3_asr import load_model as load_files

from wlk_core import ModelNotFoundError
from wlk_qwen3_simul.checkpoint import ties_head
from wlk_qwen3_simul.engine.frames import CHUNK_FRAMES

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DTYPES", "load_model"]

# What mlx-qwen3-asr raises over damaged files, or a config of another model.
_LOAD_ERRORS = (
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
    Load the Qwen3-ASR in *directory*, in the original layout, with weights of *dtype*.

    The weights must fit the config key for key, because a model with random weights would emit
    text, too.

    Raises:
        ModelNotFoundError: the model is missing, damaged or incomplete.

    """
    table = _read_config(directory)
    try:
        model, config = load_files(str(directory), dtype=dtype)
        has_head, is_embedding = _find_head(directory)
    except _LOAD_ERRORS as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ModelNotFoundError(
            f"the weights in {directory} cannot be loaded: {reason[:300]}; pull the model again"
        ) from error
    if has_head and not is_embedding and config.text_config.tie_word_embeddings:
        raise ModelNotFoundError(
            f"the weights in {directory} hold an lm_head of their own, and its config.json ties "
            "the lm_head to the embedding; pull the model again"
        )
    if not has_head and not ties_head(table):
        raise ModelNotFoundError(
            f"the weights in {directory} hold no lm_head, and its config.json does not tie it to "
            "the embedding; pull the model again"
        )
    audio = config.audio_config
    chunk, window = 2 * audio.n_window, audio.n_window_infer
    if chunk != CHUNK_FRAMES or window % chunk:
        raise ModelNotFoundError(
            f"{directory / 'config.json'}: expected chunks of {CHUNK_FRAMES} mel frames and "
            f"windows of whole chunks, got {chunk} and {window}; the published Qwen3-ASR models "
            "have no such shape"
        )
    # mlx-qwen3-asr leaves weights that are stored in half precision as they are.
    model.update(tree_map(lambda weights: _cast(weights, dtype), model.parameters()))
    mx.eval(model.parameters())
    return model


def _cast(weights: Any, dtype: Any) -> Any:
    is_floating = isinstance(weights, mx.array) and mx.issubdtype(weights.dtype, mx.floating)
    return weights.astype(dtype) if is_floating else weights


def _find_head(directory: Path) -> tuple[bool, bool]:
    """Return whether the weights hold an lm_head, and whether the embedding may replace it."""
    weights: dict[str, Any] = {}
    for file in sorted(directory.glob("*.safetensors")):
        loaded: Any = mx.load(str(file))  # lazily: an array is read when it is evaluated
        weights.update((key.removeprefix("thinker."), array) for key, array in loaded.items())
    head, embedding = weights.get("lm_head.weight"), weights.get("model.embed_tokens.weight")
    if head is None or embedding is None:
        return head is not None, False
    # An lm_head that was quantised apart from the embedding is kept.
    return True, "lm_head.scales" in weights or bool(mx.array_equal(head, embedding))


def _read_config(directory: Path) -> dict[str, Any]:
    path = directory / "config.json"
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelNotFoundError(f"{path} cannot be read: {error}; pull the model again") from error
    table = table if isinstance(table, dict) else {}
    kind = table.get("model_type")
    if kind != "qwen3_asr":
        raise ModelNotFoundError(
            f"expected a Qwen3-ASR in {directory}, and its config.json has model_type={kind!r}"
        )
    if "thinker_config" not in table:
        raise ModelNotFoundError(
            f"{directory} is in the layout of transformers, which mlx-qwen3-asr does not read; use "
            "the original repository, such as Qwen/Qwen3-ASR-0.6B, or the backend qwen3-simul"
        )
    return table
