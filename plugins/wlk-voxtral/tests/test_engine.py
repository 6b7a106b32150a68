"""The engine around a toy network whose predictions depend on everything it has processed."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
from toy_network import ToyBatchNetwork, ToyNetwork

from wlk_frameworks.features import LogMel
from wlk_voxtral.checkpoint import CheckpointConfig
from wlk_voxtral.engine import DecodeRequest, VoxtralEngine

DELAYS = (3, 6, 10)


@pytest.fixture(scope="module")
def checkpoint(tokenizer):
    """Return the config of a checkpoint."""
    return CheckpointConfig(name="toy", tokenizer=tokenizer, log_mel=LogMel())


@attrs.define
class Stream:
    """A stream of the engine: its state, the predictions so far, and the work of the last call."""

    delay_steps: int = 6
    draft_steps: int = 1
    state: object = None
    predictions: list = attrs.field(factory=list)
    work: object = None

    def request(self, steps):
        """Return the request for the next *steps* steps."""
        return DecodeRequest(
            mel=np.zeros((8 * steps, 128), dtype=np.float32),
            state=self.state,
            delay_steps=self.delay_steps,
            draft_steps=self.draft_steps,
        )

    def take(self, answer):
        """Adopt the answer to a request."""
        predictions, self.state, self.work = answer
        self.predictions += predictions

    def decoded(self, engine, steps):
        """Decode *steps* steps in a call for this stream alone, and return the stream."""
        self.take(engine.decode_batch([self.request(steps)])[0])
        return self


# The waiting streams of each engine call, with the steps of each stream.
schedules = st.lists(
    st.dictionaries(st.integers(0, 3), st.integers(1, 16), min_size=1), min_size=1, max_size=8
)


@given(
    seed=st.integers(),
    drafts=st.lists(st.integers(1, 9), min_size=4, max_size=4),
    schedule=schedules,
    pads=st.floats(0.0, 1.0),
)
def test_calls_groups_and_drafts_change_no_prediction(checkpoint, seed, drafts, schedule, pads):
    """Calls of any size, batched or alone, equal decoding step by step in a single call."""
    engine = VoxtralEngine(ToyBatchNetwork(seed, pads), checkpoint)
    streams = [Stream(DELAYS[i % 3], draft) for i, draft in enumerate(drafts)]
    for batch in schedule:
        answers = engine.decode_batch([streams[i].request(n) for i, n in batch.items()])
        for index, answer in zip(batch, answers, strict=True):
            streams[index].take(answer)
    single = VoxtralEngine(ToyNetwork(seed, pads), checkpoint)
    for index, stream in enumerate(streams):
        if total := sum(batch.get(index, 0) for batch in schedule):
            alone = Stream(stream.delay_steps).decoded(single, total)

            assert stream.predictions == alone.predictions
            assert attrs.astuple(stream.state) == attrs.astuple(alone.state)


def test_streams_that_are_due_share_each_pass(checkpoint):
    """Eight streams take as many passes as one, and each counts only its own positions."""
    network = ToyBatchNetwork(pads=1.1, min_margin=0.0)  # no margin is too small
    engine = VoxtralEngine(network, checkpoint)
    streams = [Stream(6, 8) for _ in range(8)]
    engine.decode_batch([Stream(6, 8).request(1)])  # computes the opening state
    network.widths.clear()
    for steps in (1, 1, 3):
        answers = engine.decode_batch([stream.request(steps) for stream in streams])
        for stream, answer in zip(streams, answers, strict=True):
            stream.take(answer)

    assert network.widths == [8, 8, 24]
    for stream in streams:
        work = stream.work
        assert (work.encoder_frames, work.decoder_positions) == (24, 3)
        assert work.decoder_forwards == 1
        assert work.host_syncs == 1


@pytest.mark.parametrize("fail_at", [1, 2, 3, 4])
def test_a_batch_that_failed_can_be_repeated(checkpoint, fail_at):
    """A failed pass changes no state."""
    engine = VoxtralEngine(ToyBatchNetwork(5, fail_at=fail_at), checkpoint)
    expected = VoxtralEngine(ToyBatchNetwork(5), checkpoint)
    requests = [Stream(6, 1).request(9), Stream(3, 8).request(12)]

    with pytest.raises(RuntimeError, match="out of memory"):
        engine.decode_batch(requests)
    for answer, again in zip(
        expected.decode_batch(requests), engine.decode_batch(requests), strict=True
    ):
        assert answer[0] == again[0]
        assert attrs.astuple(answer[1]) == attrs.astuple(again[1])


@pytest.mark.parametrize("delay_steps", [3, 6])
def test_predictions_begin_after_the_prompt(checkpoint, delay_steps):
    """The prompt has a first id, and an id for each step of the silence and the delay."""
    stream = Stream(delay_steps, 8).decoded(VoxtralEngine(ToyNetwork(), checkpoint), 20)

    assert len(stream.predictions) == 20 - 1 - delay_steps
    assert stream.state.positions == 31 + 20
    assert stream.state.known_ids == (stream.predictions[-1].id,)


def test_the_silence_before_an_utterance_is_computed_once_for_each_delay(checkpoint):
    """The first stream with a delay does the work, and counts it."""
    engine = VoxtralEngine(ToyNetwork(pads=1.1, min_margin=0.0), checkpoint)
    work = [Stream(delay_steps, 8).decoded(engine, 1).work for delay_steps in (6, 6, 3)]

    assert [counters.decoder_positions for counters in work] == [32, 1, 32]
    assert [counters.encoder_frames for counters in work] == [256, 8, 256]
