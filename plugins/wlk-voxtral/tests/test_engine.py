"""The engine around a toy network whose predictions depend on everything it has processed."""

from __future__ import annotations

from functools import partial

import attrs
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
from toy_network import ToyNetwork

from wlk_conformance import EngineFaults
from wlk_core.plugins import EngineCalls
from wlk_core.streaming import LogMel
from wlk_voxtral.checkpoint import CheckpointSettings
from wlk_voxtral.engine import VoxtralEngine, cut_answer


@pytest.fixture(scope="module")
def settings(tokenizer):
    """Return the settings of a checkpoint."""
    return CheckpointSettings(name="toy", tokenizer=tokenizer, log_mel=LogMel())


def mel_of(steps):
    """Return the features of steps."""
    return np.zeros((8 * steps, 128), dtype=np.float32)


def decode(engine, counts, *, delay_steps=6, draft_steps=8):
    """Return the predictions of an utterance in calls of so many steps, and its last state."""
    predictions, state = [], None
    for count in counts:
        batch, state, _ = engine.decode(
            mel_of(count), state, delay_steps=delay_steps, draft_steps=draft_steps
        )
        predictions += batch
    return predictions, state


@given(
    seed=st.integers(),
    counts=st.lists(st.integers(1, 16), min_size=1, max_size=8),
    draft_steps=st.integers(1, 9),
    pads=st.floats(0.0, 1.0),
)
def test_calls_and_drafts_change_no_prediction(settings, seed, counts, draft_steps, pads):
    """Any partition into calls and any draft equals decoding step by step in one call."""
    single = VoxtralEngine(ToyNetwork(seed, pads), settings)
    expected, state = decode(single, [sum(counts)], draft_steps=1)
    predictions, other = decode(
        VoxtralEngine(ToyNetwork(seed, pads), settings), counts, draft_steps=draft_steps
    )

    assert expected == predictions
    assert attrs.astuple(state) == attrs.astuple(other)


@pytest.mark.parametrize("delay_steps", [3, 6])
def test_predictions_begin_after_the_prompt(settings, delay_steps):
    """The prompt has an id for each step of the silence and the delay, and one to begin with."""
    predictions, state = decode(
        VoxtralEngine(ToyNetwork(), settings), [20], delay_steps=delay_steps
    )

    assert 20 - 1 - delay_steps == len(predictions)
    assert 31 + 20 == state.positions
    assert (predictions[-1].id,) == state.known_ids


def test_the_silence_before_an_utterance_is_computed_once_for_each_delay(settings):
    """The first stream of a delay does the work, and counts it."""
    engine = VoxtralEngine(ToyNetwork(pads=1.1, min_margin=0.0), settings)
    work = [
        engine.decode(mel_of(1), None, delay_steps=delay_steps, draft_steps=8)[2]
        for delay_steps in (6, 6, 3)
    ]

    assert [32, 1, 32] == [counters.decoder_positions for counters in work]
    assert [256, 8, 256] == [counters.encoder_frames for counters in work]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_an_answer_can_be_cut_short(settings, share):
    """The steps after the cut have no text, and the decoder goes on from there."""
    tokenizer = settings.tokenizer
    cut = partial(cut_answer, pad_id=tokenizer.pad_id)
    calls = EngineCalls()
    engine = VoxtralEngine(ToyNetwork(1), settings)
    run = partial(engine.decode, delay_steps=6, draft_steps=1)
    decode = calls.wrap(run, cut=cut)
    faults = EngineFaults.of(calls)
    faults.cut_short = {2: share}
    _, state, _ = decode(mel_of(1 + 6), None)
    whole, _, _ = run(mel_of(4), state)
    predictions, state, _ = decode(mel_of(4), state)

    kept = int(4 * share)
    assert list(whole[:kept]) == list(predictions[:kept])
    assert {tokenizer.pad_id} == {prediction.id for prediction in predictions[kept:]}
    assert (tokenizer.pad_id,) == state.known_ids
    assert 1 == faults.cut_count
