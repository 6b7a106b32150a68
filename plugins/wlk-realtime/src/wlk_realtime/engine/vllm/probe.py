"""A second of silence to a vLLM server, which shows whether its texts can be counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from wlk_realtime.engine.messages import ServerMessageError, ServerRefusalError
from wlk_realtime.engine.rotation import STEP_SAMPLES
from wlk_realtime.engine.vllm.messages import (
    FINAL,
    START,
    append,
    delta_of,
    done_of,
    refusal_of,
    update,
)
from wlk_realtime.engine.vllm.server import VllmServer

if TYPE_CHECKING:
    from wlk_realtime.engine.messages import Message
    from wlk_realtime.engine.vllm.messages import Done

__all__ = ["VllmProbe"]

# Two lengths of silence in steps, because texts that follow the audio differ by as many.
_STEPS = (4, 12)
_MOST_EXTRA_STEPS = 64  # of padding after the audio; Voxtral has 10
_LEAST_STEPS = 125  # of a generation: ten seconds


@attrs.frozen
class _Count:
    steps: int
    deltas: int
    done: Done

    @property
    def extra(self) -> int:
        return self.deltas - self.steps


class VllmProbe:
    """
    Decode two lengths of silence and compare what is counted.

    Times are known where each generation has as many texts as tokens, and one more for each step
    of 80 ms more.  An older vLLM, one with --stream-interval above 1, and models that transcribe
    whole pieces do not pass.
    """

    def __init__(self, model: str, *, max_model_len: int | None) -> None:
        self._model = model
        self._max_model_len = max_model_len
        self._counts: list[_Count] = []
        self._deltas = 0
        #: what was found out, None before the end
        self.server: VllmServer | None = None

    def begin(self) -> list[str]:
        """Return the name of the model and the first silence."""
        return [update(self._model), *_silence(_STEPS[0])]

    def receive(self, message: Message) -> list[str]:
        """Apply a message; return the messages to send."""
        match message["type"]:
            case "transcription.delta":
                delta_of(message)
                self._deltas += 1
            case "transcription.done":
                return self._end(done_of(message))
            case "error":
                raise refusal_of(message)
        return []

    def _end(self, done: Done) -> list[str]:
        if len(self._counts) == len(_STEPS):
            raise ServerMessageError("the end of a generation came, and none had begun")
        steps = _STEPS[len(self._counts)]
        self._counts.append(_Count(steps, self._deltas, done))
        self._deltas = 0
        if len(self._counts) < len(_STEPS):
            return _silence(_STEPS[len(self._counts)])
        self.server = self._found()
        return []

    def _found(self) -> VllmServer:
        first, second = self._counts
        prompts = {count.done.prompt_tokens for count in self._counts}
        (prompt, *others) = prompts
        server = VllmServer(
            model=self._model,
            is_timed=True,
            prompt_steps=prompt or 0,
            extra_steps=first.extra,
            max_model_len=self._max_model_len,
        )
        is_timed = (
            not others
            and server.delay_steps > 0
            and all(count.deltas == count.done.completion_tokens for count in self._counts)
            and first.extra == second.extra
            and 0 <= first.extra <= _MOST_EXTRA_STEPS
        )
        if not is_timed:
            return VllmServer(model=self._model)
        longest = server.longest_generation
        if longest is not None and longest < _LEAST_STEPS:
            raise ServerRefusalError(
                f"its max_model_len of {self._max_model_len} tokens ends after "
                f"{max(0, longest) * 0.08:.1f} s of audio; start it with --max-model-len 45000",
                is_retryable=False,
            )
        return server


def _silence(steps: int) -> list[str]:
    return [START, append(np.zeros(steps * STEP_SAMPLES, np.float32)), FINAL]
