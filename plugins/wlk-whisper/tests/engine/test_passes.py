"""Engine calls whose passes are batched have the answers that each of them has alone."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st
import numpy as np

from wlk_whisper.engine.decoding import decode
from wlk_whisper.engine.network import (
    ALONE,
    ChoiceTooClose,
    DecoderOutput,
    EncoderPass,
    Rounding,
    run_alone,
    run_together,
)

from .toy import PROMPT, ToyNetwork, make_filter

ROUNDING = Rounding(margin=0.2, attention=0.05)


class NoisyBatch:
    """A batch whose outputs differ from those of passes run alone by at most its rounding."""

    def __init__(self, network, rounding=ALONE, seed=0):
        self.network, self.rounding = network, rounding
        self.random = np.random.default_rng(seed)
        self.widths = []

    def encode(self, passes):
        """Encode one after the other."""
        self.widths.append(len(passes))
        return [self.network.encode(item.features) for item in passes]

    def forward(self, passes):
        """Run one after the other, and add noise."""
        self.widths.append(len(passes))
        return [self.noisy(item) for item in passes]

    def noisy(self, item):
        """Return the output of one pass."""
        output = item.decoder.forward(
            item.tokens, logits_to_keep=item.logits_to_keep, output_attention=item.output_attention
        )
        attention, half = output.cross_attention, self.rounding.margin / 2
        if attention is not None:
            share = self.rounding.attention / 2
            attention = attention * self.random.uniform(1 - share, 1 + share, attention.shape)
            attention = attention.astype(np.float32)
        noise = self.random.uniform(-half, half, output.logits.shape)
        return DecoderOutput(
            logits=(output.logits + noise).astype(np.float32),
            cross_attention=attention,
            rounding=self.rounding,
        )


def search(network, *, frames=24, prompt=PROMPT, budget=6, beam_size=1, has_attention=True):
    """Return an engine call: an encoder pass and a search."""
    encoder_output = yield EncoderPass(features=np.zeros((80, 2 * frames), dtype=np.float32))
    return (
        yield from decode(
            network,
            encoder_output,
            prompt,
            logit_filter=make_filter(has_timestamps=not has_attention),
            budget=budget,
            beam_size=beam_size,
            output_attention=has_attention,
        )
    )


def choices(result):
    """Return what the search chose."""
    return result.tokens, result.has_ended, result.work


requests = st.fixed_dictionaries(
    {
        "frames": st.integers(8, 24),
        "prompt": st.lists(st.integers(0, 19), max_size=4).map(lambda words: (*PROMPT, *words)),
        "budget": st.integers(1, 7),
        "beam_size": st.sampled_from([1, 1, 1, 3]),
        "has_attention": st.booleans(),
    }
)


@given(st.lists(requests, min_size=1, max_size=5), st.integers(0, 2**32), st.booleans())
def test_any_group_of_calls_has_the_choices_of_each_alone(group, seed, is_noisy):
    """Tokens and work are equal, whatever rounding does within its bounds."""
    network = ToyNetwork(seed=seed)
    calls = [partial(search, network, **request) for request in group]
    batch = NoisyBatch(network, ROUNDING if is_noisy else ALONE, seed)

    answers = run_together(network, batch, calls)

    assert list(map(choices, answers)) == [choices(run_alone(network, call())) for call in calls]
    assert max(batch.widths) == len(group)


def test_a_choice_that_is_too_close_is_made_again_alone():
    """The other calls of the batch go on."""
    network = ToyNetwork()
    batch = NoisyBatch(network, Rounding(margin=1e-9))
    begun = []

    def close_in_a_batch():
        begun.append(len(begun))
        output = yield EncoderPass(features=np.zeros((80, 8), dtype=np.float32))
        if len(begun) == 1:
            raise ChoiceTooClose
        return output.frames

    other = partial(search, network)
    answers = run_together(network, batch, [close_in_a_batch, other])

    assert begun == [0, 1]
    assert answers[0] == 4
    assert choices(answers[1]) == choices(run_alone(network, other()))
