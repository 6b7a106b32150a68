"""What the handshake found out about a vLLM server."""

from __future__ import annotations

import attrs

from wlk_realtime.engine.untimed_words import LONGEST_PIECE_STEPS
from wlk_realtime.engine.vllm.dialect import VllmDialect

__all__ = ["LEFT_PAD_STEPS", "VllmServer"]

# Steps of silence before the audio, and the begin of the text: the prompt without its delay.
LEFT_PAD_STEPS = 32
_BEGIN_STEPS = 1


@attrs.frozen(kw_only=True)
class VllmServer:
    """
    A model at vLLM.

    Attributes:
        model: its name there.
        is_timed: whether a generation has one delta for each step of 80 ms, so that counting them
            gives times.
        prompt_steps: steps of silence and delay before the first delta.
        extra_steps: deltas of a generation beyond the steps of its audio.
        max_model_len: tokens after which vLLM ends a generation, None if unknown.

    """

    model: str
    is_timed: bool = False
    prompt_steps: int = 0
    extra_steps: int = 0
    max_model_len: int | None = None

    def open(self) -> VllmDialect:
        """Return a session at this server."""
        return VllmDialect(self)

    @property
    def delay_steps(self) -> int:
        """Steps by which text follows its audio."""
        return self.prompt_steps - LEFT_PAD_STEPS - _BEGIN_STEPS

    @property
    def longest_generation(self) -> int | None:
        """Steps of audio whose deltas all come before `max_model_len`; None for no limit."""
        if not self.is_timed:
            return LONGEST_PIECE_STEPS
        if self.max_model_len is None:
            return None
        return self.max_model_len - self.prompt_steps - self.extra_steps

    def expected_deltas(self, steps: int) -> int:
        """Return how many deltas come for *steps* of audio while more may follow."""
        # 1: the encoder needs the beginning of the step that follows
        return max(0, steps - self.delay_steps - 1)

    def decoded_steps(self, deltas: int) -> int:
        """Return how many steps of audio the model has consumed for *deltas*."""
        return deltas + self.delay_steps if deltas else 0
