"""Greedy and beam search over a Network: from encoder output and prompt to tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from wlk_core.plugins import WorkCounters
from wlk_frameworks.decoding_loops import Loop, find_loop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wlk_whisper.engine.logit_filters import LogitFilter
    from wlk_whisper.engine.network import Decoder, DecoderOutput, Network

# Consecutive repetitions of an n-gram that stop decoding: speech rarely has as many in a window.
# The window is then decoded again without earlier text, or the next window decodes the rest.
LOOP_REPEATS = 12
LOOP_MAX_TOKENS = 16  # length of the longest n-gram searched for


@attrs.frozen(kw_only=True, eq=False)
class DecodingResult:
    """The best hypothesis of a search."""

    tokens: tuple[int, ...]  #: after the prompt; includes timestamps, but not the end of text
    forced: int  #: number of tokens forced on the decoder, before `tokens`
    logprobs: NDArray[np.float32]  #: float32[tokens], after the logit filter
    #: float32[heads, rows, frames] or None.  Row i belongs to the i-th input token, counted from
    #: the start of the prompt, and predicted token i + 1.  The last row predicted the end of text
    #: or, where that is missing, the last token.
    cross_attention: NDArray[np.float32] | None
    no_speech_prob: float  #: 0 if the prompt has no start of transcript
    has_ended: bool  #: with the end of text, rather than at the budget or in a loop
    loop: Loop | None  #: the repetition that stopped the search, as indices of `tokens`
    work: WorkCounters


def decode(
    network: Network,
    encoder_output: Any,
    prompt: Sequence[int],
    *,
    logit_filter: LogitFilter,
    budget: int,
    previous: Sequence[int] = (),
    beam_size: int = 1,
    output_attention: bool = False,
) -> DecodingResult:
    """
    Return the text that follows *prompt*.

    The beam search is that of CTranslate2 and openai/whisper: it ends once `beam_size` hypotheses
    have ended and returns the one with the highest mean log-probability.  A beam of one is greedy.
    The search stops early, with the best open hypothesis, if that loops.  What loops is often the
    text of *previous*, so the audio is then decoded again without it.

    Args:
        network: runs the layers.
        encoder_output: the audio, as encoded by the network.
        prompt: the start of transcript and the committed prefix.
        logit_filter: restricts the tokens that may follow.
        budget: maximum number of tokens; the decoder's free positions limit it further.
        previous: tokens of earlier text, which precede the prompt.
        beam_size: number of hypotheses kept.
        output_attention: whether cross attention is returned.

    """
    forced = [*previous, *prompt]
    max_tokens = min(budget, network.n_text_ctx - len(forced))
    work = WorkCounters()
    while True:
        decoder = network.new_decoder(encoder_output)
        search = _Search(decoder, logit_filter, beam_size, output_attention, max_tokens, work=work)
        result = search.run(forced)
        if result.loop is None or len(forced) == len(prompt):
            return result
        forced, work = list(prompt), result.work


def _find_loop(tokens: tuple[int, ...]) -> Loop | None:
    if tokens.count(tokens[-1]) < LOOP_REPEATS:
        return None  # this cheap test suffices at nearly every step
    return find_loop(tokens, times=LOOP_REPEATS, longest=LOOP_MAX_TOKENS)


@attrs.frozen(eq=False)
class _Hypothesis:
    """One row of the beam; rows that extend it share its attention arrays."""

    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    score: float = 0.0
    attention: tuple[NDArray[np.float32], ...] = ()  #: float32[heads, new, frames], one per pass

    @property
    def mean_logprob(self) -> float:
        return self.score / max(1, len(self.tokens))

    def with_token(self, token: int, logprob: float) -> _Hypothesis:
        """Return the hypothesis with one more token."""
        return attrs.evolve(
            self,
            tokens=(*self.tokens, token),
            logprobs=(*self.logprobs, logprob),
            score=self.score + logprob,
        )


@attrs.define(eq=False)
class _Search:
    """The state of one search: open hypotheses, ended ones, and the work counters."""

    decoder: Decoder
    logit_filter: LogitFilter
    beam_size: int
    output_attention: bool
    max_tokens: int
    open: list[_Hypothesis] = attrs.Factory(lambda: [_Hypothesis()])
    #: hypothesis, its mean log-probability, and whether it ended with the end of text
    ended: list[tuple[_Hypothesis, float, bool]] = attrs.Factory(list)
    is_finished: bool = False
    no_speech_prob: float = 0.0
    work: WorkCounters = attrs.Factory(WorkCounters)

    def run(self, prompt: Sequence[int]) -> DecodingResult:
        """Return the text after *prompt*."""
        self._start(prompt)
        while not self.is_finished:
            best = self.open[0]
            if (loop := _find_loop(best.tokens)) is not None:
                if self.ended:
                    break  # another has ended already, and the open ones loop after its end
                return self._result(best, len(prompt), has_ended=False, loop=loop)
            newest = np.array([[row.tokens[-1]] for row in self.open], dtype=np.int64)
            self._extend(self._forward(newest, (-1,)))
        best, has_ended = self._best()
        return self._result(best, len(prompt), has_ended=has_ended)

    def _start(self, prompt: Sequence[int]) -> None:
        """Run the prompt and choose the first tokens."""
        sot = self.logit_filter.sot
        start = list(prompt).index(sot) if sot in prompt else None
        logits_to_keep = (-1,) if start is None else (start, -1)
        output = self._forward(np.array([prompt], dtype=np.int64), logits_to_keep)
        if start is not None:
            self.no_speech_prob = self.logit_filter.no_speech_probability(output.logits[0, 0])
        self._extend(output)

    def _best(self) -> tuple[_Hypothesis, bool]:
        """Return the best finished hypothesis, and whether it ended with the end of text."""
        ranked = sorted(self.ended, key=lambda entry: entry[1], reverse=True)
        hypothesis, _, has_ended = ranked[0]
        return hypothesis, has_ended

    def _result(
        self, hypothesis: _Hypothesis, forced: int, *, has_ended: bool, loop: Loop | None = None
    ) -> DecodingResult:
        attention = hypothesis.attention
        return DecodingResult(
            tokens=hypothesis.tokens,
            forced=forced,
            logprobs=np.array(hypothesis.logprobs, dtype=np.float32),
            cross_attention=np.concatenate(attention, axis=1) if attention else None,
            no_speech_prob=self.no_speech_prob,
            has_ended=has_ended,
            loop=loop,
            work=self.work,
        )

    def _forward(self, tokens: NDArray[np.int64], logits_to_keep: tuple[int, ...]) -> DecoderOutput:
        output = self.decoder.forward(
            tokens, logits_to_keep=logits_to_keep, output_attention=self.output_attention
        )
        self.work += WorkCounters(decoder_positions=tokens.size, decoder_forwards=1, host_syncs=1)
        if output.cross_attention is not None:
            self.open = [
                attrs.evolve(row, attention=(*row.attention, new))
                for row, new in zip(self.open, output.cross_attention, strict=True)
            ]
        return output

    def _extend(self, output: DecoderOutput) -> None:
        """Extend the open hypotheses by the tokens that *output* predicts."""
        logprobs = np.stack(
            [
                self.logit_filter.logprobs(logits[-1], row.tokens)
                for logits, row in zip(output.logits, self.open, strict=True)
            ]
        )
        if np.isnan(logprobs).any():
            raise FloatingPointError(
                "the decoder's logits contain NaN because its arithmetic overflowed; "
                "load the model in float32 or bfloat16"
            )
        is_full = len(self.open[0].tokens) + 1 == self.max_tokens
        origins: list[int] = []
        rows: list[_Hypothesis] = []
        for rank, (origin, token) in enumerate(self._candidates(logprobs)):
            logprob = float(logprobs[origin, token])
            if token != self.logit_filter.eot:
                row = self.open[origin].with_token(token, logprob)
                if len(rows) < self.beam_size:
                    origins.append(origin)
                    rows.append(row)
                if is_full and rank < self.beam_size:
                    self.ended.append((row, row.mean_logprob, False))
            elif rank < self.beam_size:
                row = self.open[origin]
                score = row.score + logprob
                self.ended.append((row, score / max(1, len(row.tokens)), True))
        self.is_finished = is_full or not rows or len(self.ended) >= self.beam_size
        if not self.is_finished:
            if origins != list(range(len(self.open))):
                self.decoder.reorder_cache(origins)
            self.open = rows

    def _candidates(self, logprobs: NDArray[np.float32]) -> list[tuple[int, int]]:
        """Return the likeliest continuations as (row, token), at most twice the beam size."""
        if self.beam_size == 1:
            return [(0, int(logprobs[0].argmax()))]
        scores = logprobs + np.array([[row.score] for row in self.open])
        # Each row has one end of text, so at least half of the candidates continue.
        count = min(2 * self.beam_size, scores.size - 1)
        flat = scores.ravel()
        likeliest = np.argpartition(-flat, count)[:count]
        likeliest = likeliest[np.argsort(-flat[likeliest], kind="stable")]
        rows, tokens = np.divmod(likeliest, scores.shape[1])
        return [
            (int(row), int(token))
            for row, token in zip(rows, tokens, strict=True)
            if np.isfinite(scores[row, token])
        ]
