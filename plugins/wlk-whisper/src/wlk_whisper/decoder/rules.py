"""What the decoder may say next: Whisper's rules about suppressed tokens and timestamps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import attrs
from faster_whisper.transcribe import get_suppressed_tokens
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from faster_whisper.tokenizer import Tokenizer
    from numpy.typing import NDArray

__all__ = ["Rules", "log_softmax"]

MAX_INITIAL_TIMESTAMP = 50  # steps of 20 ms: the first segment begins within a second


@attrs.frozen(kw_only=True, eq=False)
class Rules:
    """
    Which tokens are allowed, as openai/whisper and CTranslate2 have it.

    With timestamps they come in pairs, text between them, never go back, and one is taken wherever
    all of them together are more likely than any single text token.  Without them none is allowed.
    """

    sot: int  #: start of transcript, the place where no speech is told
    eot: int  #: end of text
    no_speech: int
    timestamp_begin: int  #: the first timestamp; all ids from here on are timestamps
    suppressed: NDArray[np.int64]  #: never allowed
    begin_suppressed: NDArray[np.int64]  #: not allowed as the first token
    has_timestamps: bool
    max_initial_timestamp: int = MAX_INITIAL_TIMESTAMP

    @classmethod
    def of(
        cls,
        tokenizer: Tokenizer,
        *,
        has_timestamps: bool,
        begin_suppressed: Sequence[int] | None = None,
        suppressed: Sequence[int] | None = None,
    ) -> Self:
        """
        Return the rules of a vocabulary.

        Args:
            tokenizer: knows the ids of the special tokens.
            has_timestamps: whether the prompt asks for timestamps, ending before any.
            begin_suppressed: what a checkpoint's ``begin_suppress_tokens`` say; None means a blank
                and the end of text, as openai/whisper has it.
            suppressed: in place of the tokens that are no speech (brackets, notes, ...).

        """
        first = (
            (tokenizer.encode(" ")[0], tokenizer.eot)
            if begin_suppressed is None
            else begin_suppressed
        )
        unspoken = get_suppressed_tokens(tokenizer, [-1]) if suppressed is None else suppressed
        special = range(tokenizer.eot + 1, tokenizer.timestamp_begin)
        return cls(
            sot=tokenizer.sot,
            eot=tokenizer.eot,
            no_speech=tokenizer.no_speech,
            timestamp_begin=tokenizer.timestamp_begin,
            suppressed=np.array(sorted({*unspoken, *special}), dtype=np.int64),
            begin_suppressed=np.array(sorted(set(first)), dtype=np.int64),
            has_timestamps=has_timestamps,
        )

    def log_probs(self, logits: NDArray[np.float32], said: Sequence[int]) -> NDArray[np.float32]:
        """
        Return the log-probabilities float32[vocabulary] of what may follow *said*.

        Args:
            logits: float32[vocabulary], not changed.
            said: the tokens behind the prompt so far.

        """
        allowed = logits.copy()
        allowed[self.suppressed] = -np.inf
        if not said:
            allowed[self.begin_suppressed] = -np.inf
        if self.has_timestamps:
            self._keep_timestamps(allowed, said)
        else:
            allowed[self.timestamp_begin :] = -np.inf
        return log_softmax(allowed)

    def no_speech_probability(self, logits: NDArray[np.float32]) -> float:
        """Return how likely no speech is, from the logits behind the start of transcript."""
        return float(np.exp(log_softmax(logits)[self.no_speech]))

    def _keep_timestamps(self, allowed: NDArray[np.float32], said: Sequence[int]) -> None:
        begin = self.timestamp_begin
        if not said:
            allowed[:begin] = -np.inf
            allowed[begin + self.max_initial_timestamp + 1 :] = -np.inf
            return
        newest = next((token for token in reversed(said) if token >= begin), begin)
        allowed[begin:newest] = -np.inf
        is_paired = said[-1] >= begin and (len(said) == 1 or said[-2] >= begin)
        if is_paired:
            allowed[begin:] = -np.inf  # text, or the end
            return
        if said[-1] >= begin:
            allowed[: self.eot] = -np.inf  # a segment has ended: the next one begins, or none
        if _log_sum(allowed[begin:]) > allowed[:begin].max():
            allowed[:begin] = -np.inf


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the log-probabilities of float32[n], of which at least one is finite."""
    probabilities: NDArray[np.float32] = logits - np.float32(_log_sum(logits))
    return probabilities


def _log_sum(logits: NDArray[np.float32]) -> float:
    peak = float(logits.max())
    if peak == -np.inf:
        return peak
    return peak + float(np.log(np.exp(logits - np.float32(peak)).sum(dtype=np.float64)))
