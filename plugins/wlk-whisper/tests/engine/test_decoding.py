"""Greedy and beam search over a network that can be recomputed by hand."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_whisper.engine.decoding import LOOP_REPEATS, decode
from wlk_whisper.engine.logit_filters import log_softmax
from wlk_whisper.engine.network import DecoderOutput

from .toy import EOT, NO_SPEECH, PROMPT, ToyNetwork, make_filter


def encode(network, *, frames=24):
    """Return an encoder output of that many frames."""
    return network.encode(np.zeros((80, 2 * frames), dtype=np.float32))


def next_logprobs(network, tokens, logit_filter):
    """Return the log-probabilities after *tokens*, recomputed without a cache."""
    logits, _ = network.recompute((*PROMPT, *tokens))
    return logit_filter.logprobs(logits[-1], tokens)


def beam(network, logit_filter, budget, size):
    """Return the best hypothesis of a beam, every row of it recomputed from its start."""
    rows, ended = [((), 0.0)], []
    while True:
        candidates = [
            (score + float(logprob), tokens, token)
            for tokens, score in rows
            for token, logprob in enumerate(next_logprobs(network, tokens, logit_filter))
            if np.isfinite(logprob)
        ]
        candidates = sorted(candidates, key=lambda candidate: -candidate[0])[: 2 * size]
        is_full = len(rows[0][0]) + 1 == budget
        for score, tokens, token in candidates[:size]:
            if token == EOT:
                ended.append((score / max(1, len(tokens)), tokens))
            elif is_full:
                ended.append((score / (len(tokens) + 1), (*tokens, token)))
        rows = [((*tokens, token), score) for score, tokens, token in candidates if token != EOT][
            :size
        ]
        if is_full or not rows or len(ended) >= size:
            return max(ended, key=lambda entry: entry[0])[1]


@given(st.integers(0, 200), st.booleans(), st.integers(1, 10), st.integers(1, 5))
@settings(max_examples=20)
def test_a_beam_equals_the_one_without_a_cache(seed, has_timestamps, budget, size):
    """Reordering the rows of the cache loses and mixes up nothing."""
    network, logit_filter = ToyNetwork(seed=seed), make_filter(has_timestamps=has_timestamps)
    result = decode(
        network,
        encode(network),
        PROMPT,
        logit_filter=logit_filter,
        budget=budget,
        beam_size=size,
    )

    assert result.tokens == beam(network, logit_filter, budget, size)


@given(st.integers(0, 100), st.integers(1, 4))
@settings(max_examples=15)
def test_the_result_equals_a_pass_over_the_whole_text(seed, size):
    """Attention and log-probabilities of the best hypothesis are those of one pass."""
    network, logit_filter = ToyNetwork(seed=seed), make_filter()
    result = decode(
        network,
        encode(network),
        PROMPT,
        logit_filter=logit_filter,
        budget=9,
        beam_size=size,
        output_attention=True,
    )
    inputs = (*PROMPT, *result.tokens)[: None if result.has_ended else -1]
    logits, attention = network.recompute(inputs)
    first = len(PROMPT) - 1

    np.testing.assert_allclose(attention, result.cross_attention, atol=1e-6)
    np.testing.assert_allclose(
        [
            logit_filter.logprobs(logits[first + index], result.tokens[:index])[token]
            for index, token in enumerate(result.tokens)
        ],
        result.logprobs,
        atol=1e-5,
    )


def test_no_speech_is_read_at_the_start_of_the_transcript():
    """The probability is unfiltered, wherever in the prompt the start of transcript is."""
    network = ToyNetwork(seed=3)
    prompt = (4, 5, *PROMPT)
    result = decode(network, encode(network), prompt, logit_filter=make_filter(), budget=4)
    logits, _ = network.recompute(prompt)

    assert np.exp(log_softmax(logits[2])[NO_SPEECH]) == pytest.approx(result.no_speech_prob)


class ScriptedNetwork:
    """A decoder whose logits are a function of all of its input tokens."""

    n_text_ctx = 448

    def __init__(self, logits):
        self.logits = logits

    def new_decoder(self, encoder_output):
        """Return a decoder of one row."""
        decoder = ScriptedNetwork(self.logits)
        decoder.rows = [()]
        return decoder

    def forward(self, tokens, *, logits_to_keep=(-1,), output_attention=False):
        """Return the logits after every row."""
        self.rows = [row + tuple(new) for row, new in zip(self.rows, tokens.tolist(), strict=True)]
        last = np.stack([self.logits(row) for row in self.rows])
        return DecoderOutput(logits=np.repeat(last[:, None], len(logits_to_keep), axis=1))

    def reorder_cache(self, rows):
        """Copy the rows."""
        self.rows = [self.rows[row] for row in rows]


def looping(loops_after=None):
    """Return logits of three words that repeat for ever, after *loops_after* or any text."""

    def logits(row):
        word = {10: 11, 11: 12}.get(row[-1], 10)
        if loops_after not in (None, *row):
            word = 15 if row[-1] == PROMPT[-1] else EOT
        return 50.0 * (np.arange(40) == word).astype(np.float32)

    return logits


@pytest.mark.parametrize("size", [1, 4])
def test_a_loop_ends_the_search(size):
    """A decoder that repeats itself is stopped at the repetition that makes it a loop."""
    result = decode(
        ScriptedNetwork(looping()),
        None,
        PROMPT,
        logit_filter=make_filter(),
        budget=400,
        beam_size=size,
    )

    assert result.tokens == (10, 11, 12) * LOOP_REPEATS
    assert (result.loop.start, result.loop.period, result.loop.end) == (0, 3, len(result.tokens))
    assert not result.has_ended


@pytest.mark.parametrize("size", [1, 4])
def test_a_text_that_loops_after_earlier_text_is_decoded_without_it(size):
    """The result is that of the prompt alone, and both searches count as work."""
    network, options = ScriptedNetwork(looping(9)), {"logit_filter": make_filter(), "budget": 400}
    loop = decode(network, None, (9, *PROMPT), beam_size=size, **options)
    alone = decode(network, None, PROMPT, beam_size=size, **options)
    result = decode(network, None, PROMPT, previous=(9,), beam_size=size, **options)

    assert loop.loop is not None
    assert alone.tokens == (15,)
    assert result.tokens == (15,)
    assert result.forced == alone.forced
    assert result.work == loop.work + alone.work


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_an_ended_text_is_kept_when_an_open_one_loops_after_its_end(size):
    """A beam continues after the end of the right text, and a loop there does not replace it."""

    def logits(inputs):
        tokens, text = inputs[len(PROMPT) :], (1, 2, 5)
        row = np.zeros(40, dtype=np.float32)
        row[text[len(tokens)] if len(tokens) < len(text) else 4] = 8.0
        if len(tokens) == len(text):
            row[EOT] = 12.0
        return row

    result = decode(
        ScriptedNetwork(logits),
        None,
        PROMPT,
        logit_filter=make_filter(),
        budget=60,
        beam_size=size,
    )

    assert result.tokens == (1, 2, 5)
    assert result.has_ended


@pytest.mark.parametrize("size", [1, 4])
def test_nan_logits_are_an_error_and_never_a_text(size):
    """The error names overflow as the cause, and the remedy."""
    network = ScriptedNetwork(lambda _: np.full(40, np.nan, dtype=np.float32))

    with pytest.raises(FloatingPointError, match="load the model in float32"):
        decode(network, None, PROMPT, logit_filter=make_filter(), budget=10, beam_size=size)
