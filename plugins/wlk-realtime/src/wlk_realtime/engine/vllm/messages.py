"""Messages of vLLM's realtime endpoint; vLLM 0.33, vllm/entrypoints/speech_to_text/realtime."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs

from wlk_realtime.engine.messages import (
    Message,
    ServerMessageError,
    ServerRefusalError,
    shortened,
)
from wlk_realtime.engine.pcm import base64_pcm16

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FINAL", "START", "Done", "append", "delta_of", "done_of", "refusal_of", "update"]

#: A commit begins a generation; vLLM ignores it, without an answer, while one runs.
START = json.dumps({"type": "input_audio_buffer.commit"})
#: No audio may follow before the generation is done, because vLLM would drop it.
FINAL = json.dumps({"type": "input_audio_buffer.commit", "final": True})

# Qwen3-ASR begins each piece of 5 s with "language English<asr_text>".
_QWEN3_ASR = "<asr_text>"
_RETRYABLE = (None, "processing_error")  # the other codes are about a request, which would repeat


@attrs.frozen
class Done:
    """The end of a generation: how many tokens vLLM read and wrote; None where it is not sent."""

    prompt_tokens: int | None
    completion_tokens: int | None


def update(model: str) -> str:
    """Return the message that names the model, which every session must have once."""
    return json.dumps({"type": "session.update", "model": model})


def append(audio: NDArray[np.float32]) -> str:
    """Return the message that appends float32[n], n > 0."""
    return json.dumps({"type": "input_audio_buffer.append", "audio": base64_pcm16(audio)})


def delta_of(message: Message) -> str:
    """
    Return the text of a delta, empty for a step without text.

    Raises:
        ServerMessageError: it is no text.
        ServerRefusalError: it is that of a model that does not stream.

    """
    text = message.get("delta")
    if not isinstance(text, str):
        raise ServerMessageError(f"expected the text of a delta, got {shortened(text)}")
    if _QWEN3_ASR in text:
        raise ServerRefusalError(
            "the model is Qwen3-ASR, which vLLM transcribes in separate pieces of 5 s, "
            "without times; use --backend qwen3-simul for it",
            is_retryable=False,
        )
    return text.replace("\N{REPLACEMENT CHARACTER}", "")


def done_of(message: Message) -> Done:
    """Return the counts of the end of a generation."""
    usage = message.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    return Done(_count(counts.get("prompt_tokens")), _count(counts.get("completion_tokens")))


def refusal_of(message: Message) -> ServerRefusalError:
    """Return the error of a message of type `error`, whose text is no object as at OpenAI."""
    code = message.get("code")
    return ServerRefusalError(
        f"{shortened(message.get('error'))} ({shortened(code)})", is_retryable=code in _RETRYABLE
    )


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None
