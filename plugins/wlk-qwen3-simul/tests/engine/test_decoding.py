"""A draft changes the cost of decoding, never its tokens; each token has a frame."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_qwen3_simul.engine.decoding import (
    LOOP_TIMES,
    DecoderStep,
    align_tokens,
    choose,
    decode,
    steps_from_output,
)
from wlk_qwen3_simul.engine.network import DecoderOutput

PROMPT = (1, 2, 3)


def run(network, *, draft=(), ends=frozenset({5}), max_tokens=20, halt=None):
    """Return the decoding after the prompt, and its KV cache."""
    kv_cache = network.new_kv_cache()
    result = decode(
        network,
        kv_cache,
        [],
        forced=PROMPT,
        draft=draft,
        max_tokens=max_tokens,
        ends=ends,
        audio=(0, 2),
        halt=halt,
    )
    return result, kv_cache


def astray(rewind):
    """Return a halt at a token that attends more than *rewind* frames before an earlier one."""

    def halt(ids, steps):
        frames = [token.frame for token in align_tokens(ids, steps, by_self=False)]
        return frames[-1] < max(frames) - rewind

    return halt


@given(
    st.integers(0, 300),
    st.lists(st.integers(0, 30), max_size=8),
    st.integers(0, 20),
    st.sampled_from([None, *map(astray, (0, 1, 3))]),
)
def test_the_text_is_that_without_a_draft(toy, seed, guess, right, halt):
    """The draft may be right at first and then wrong, right throughout, or never right."""
    network = toy(seed=seed, vocabulary=40)
    endless, _ = run(network, ends=frozenset())  # a draft may continue after the end
    plain, _ = run(network, halt=halt)
    drafted, kv_cache = run(network, draft=(*endless.ids[:right], *guess), halt=halt)

    assert drafted.ids == plain.ids
    assert drafted.ended == plain.ended
    assert drafted.loop == plain.loop
    assert [step.frame for step in drafted.steps] == [step.frame for step in plain.steps]
    assert kv_cache.length == len(PROMPT) + len(plain.ids)


def test_a_draft_that_is_right_takes_one_forward(toy):
    """Verifying it also takes a single transfer to the host."""
    network = toy(seed=3)
    plain, _ = run(network, max_tokens=9)
    drafted, _ = run(network, max_tokens=9, draft=plain.ids)

    assert drafted.work.decoder_forwards == 1
    assert drafted.work.host_syncs == 1
    assert plain.work.decoder_forwards == len(plain.ids) + 1


@pytest.mark.parametrize("seed", range(8))
def test_a_choice_is_that_of_greedy_decoding_among_the_choices(toy, seed):
    """Only ids at which choices part take a forward, and the last of them is not yet held."""
    network, choices = toy(seed=seed), [(10, 2, 3, 9), (10, 2, 4, 9), (10, 5, 9)]
    kv_cache = network.new_kv_cache()
    chosen, held, work = choose(network, kv_cache, [PROMPT], choices, audio=(0, 2))

    def next_id(held, among):
        fresh = network.new_kv_cache()
        return network.forward(fresh, [(*PROMPT, *held)], rows=1, audio=(0, 2), among=among).ids[0]

    second = next_id((10,), (2, 5))
    third = next_id((10, 2), (3, 4))
    assert chosen == ((10, 5, 9) if second == 5 else (10, 2, third, 9))
    assert held == (1 if second == 5 else 2)
    assert kv_cache.length == len(PROMPT) + held == work.decoder_positions
    assert work.decoder_forwards == held


def test_a_loop_ends_the_text(toy):
    """A decoder that repeats itself endlessly is stopped, and the result names the loop."""
    network = toy(seed=1, sharpness=0.0)  # every token is as likely as token 0
    result, _ = run(network, max_tokens=200)
    drafted, _ = run(network, max_tokens=200, draft=[0] * (LOOP_TIMES + 5))

    assert not result.ended
    assert (result.ids, result.loop) == (drafted.ids, drafted.loop)
    assert (result.loop.start, result.loop.period, result.loop.end) == (0, 1, LOOP_TIMES)
    assert result.without_first(3).loop.end == LOOP_TIMES - 3


def test_overflow_is_an_error_and_not_a_text(toy):
    """Logits that are not finite mean that the model needs another dtype."""
    network = toy(seed=2)
    network.out[:] = float("nan")

    with pytest.raises(FloatingPointError, match="load the model in float32 or bfloat16"):
        run(network)


def test_frames_count_the_audio_tokens_that_were_left_out():
    """Each second has 13 tokens: token 13 of a window starts at frame 25, after one second."""
    attention = np.zeros((1, 20), dtype=np.float32)
    attention[0, 11] = 1.0
    one = np.ones(1, dtype=np.float32)
    output = DecoderOutput(
        ids=np.array([7]), logprobs=-one, attention=attention, audio_attention_mass=one
    )

    assert [step.frame for step in steps_from_output(output, first_token=2)] == [25]


def test_a_token_has_the_frame_of_the_step_its_heads_attend_at():
    """That step predicts the token or has it as input; one that ignores the audio has no frame."""
    steps = [DecoderStep(7, -0.1, 10), DecoderStep(8, -0.2, None), DecoderStep(9, -0.3, 30)]
    predicted = align_tokens([7, 8], steps, by_self=False)
    fed = align_tokens([7, 8], steps, by_self=True)

    assert [token.frame for token in predicted] == [10, 10]
    assert [token.frame for token in fed] == [0, 30]
    assert [token.logprob for token in fed] == [-0.1, -0.2]
