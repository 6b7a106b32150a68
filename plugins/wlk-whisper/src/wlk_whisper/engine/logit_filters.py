"""The decoder's logit filter: suppressed tokens and Whisper's timestamp rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


MAX_INITIAL_TIMESTAMP = 50  # steps of 20 ms: the first segment begins within a second


@attrs.frozen(kw_only=True, eq=False)
class LogitFilter:
    """
    Restrict the next token by the rules of openai/whisper and CTranslate2.

    With timestamps, these come in pairs around text and never decrease, and one is forced if all of
    them together are likelier than the likeliest text token.  Without, none is allowed.
    """

    sot: int  #: start of transcript; the logits after it include the probability of no speech
    eot: int  #: end of text
    no_speech: int
    timestamp_begin: int  #: the first timestamp; all larger ids are timestamps too
    suppress_tokens: NDArray[np.int64]  #: never allowed
    begin_suppress_tokens: NDArray[np.int64]  #: not allowed as the first token
    has_timestamps: bool
    max_initial_timestamp: int = MAX_INITIAL_TIMESTAMP

    def logprobs(self, logits: NDArray[np.float32], tokens: Sequence[int]) -> NDArray[np.float32]:
        """
        Return the log-probabilities float32[vocabulary] of the token after *tokens*.

        *logits*, float32[vocabulary], are not changed; *tokens* are all tokens after the prompt.

        """
        allowed = logits.copy()
        allowed[self.suppress_tokens] = -np.inf
        if not tokens:
            allowed[self.begin_suppress_tokens] = -np.inf
        if self.has_timestamps:
            self._apply_timestamp_rules(allowed, tokens)
        else:
            allowed[self.timestamp_begin :] = -np.inf
        return log_softmax(allowed)

    def no_speech_probability(self, logits: NDArray[np.float32]) -> float:
        """Return the probability of no speech, from the logits after the start of transcript."""
        return float(np.exp(log_softmax(logits)[self.no_speech]))

    def _apply_timestamp_rules(self, allowed: NDArray[np.float32], tokens: Sequence[int]) -> None:
        begin = self.timestamp_begin
        if not tokens:
            allowed[:begin] = -np.inf
            allowed[begin + self.max_initial_timestamp + 1 :] = -np.inf
            return
        newest = next((token for token in reversed(tokens) if token >= begin), begin)
        allowed[begin:newest] = -np.inf
        is_paired = tokens[-1] >= begin and (len(tokens) == 1 or tokens[-2] >= begin)
        if is_paired:
            allowed[begin:] = -np.inf  # text or the end of text must follow
            return
        if tokens[-1] >= begin:
            allowed[: self.eot] = -np.inf  # a segment has ended: a timestamp or the end follows
        lead = _log_sum_exp(allowed[begin:]) - float(allowed[:begin].max())
        if lead > 0:
            allowed[:begin] = -np.inf


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the log-probabilities of *logits*, float32[n], at least one of which is finite."""
    logprobs: NDArray[np.float32] = logits - np.float32(_log_sum_exp(logits))
    return logprobs


def _log_sum_exp(logits: NDArray[np.float32]) -> float:
    peak = float(logits.max())
    if peak == -np.inf:
        return peak
    return peak + float(np.log(np.exp(logits - np.float32(peak)).sum(dtype=np.float64)))
