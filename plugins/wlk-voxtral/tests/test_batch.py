"""Steps of several streams in common passes give each stream what it gets alone."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
from toy_network import ToyBatchNetwork, ToyNetwork

from wlk_core.streaming import LogMel
from wlk_voxtral.checkpoint import CheckpointSettings
from wlk_voxtral.engine import DecodeRequest, VoxtralEngine

DELAYS = (3, 6, 10)


@pytest.fixture(scope="module")
def settings(tokenizer):
    """Return the settings of a checkpoint."""
    return CheckpointSettings(name="toy", tokenizer=tokenizer, log_mel=LogMel())


@attrs.define
class Stream:
    """A stream of the engine: its state, and the predictions so far."""

    delay_steps: int
    draft_steps: int
    state: object = None
    predictions: list = attrs.field(factory=list)

    def request(self, steps):
        """Return the request of so many steps."""
        return DecodeRequest(
            mel=np.zeros((8 * steps, 128), dtype=np.float32),
            state=self.state,
            delay_steps=self.delay_steps,
            draft_steps=self.draft_steps,
        )

    def take(self, answer):
        """Adopt an answer."""
        predictions, self.state, _ = answer
        self.predictions += predictions


def streams_of(drafts):
    """Return a stream for each number of draft steps, with delays in turn."""
    return [Stream(DELAYS[i % 3], draft) for i, draft in enumerate(drafts)]


# For each call of the engine: the streams that wait, with the steps of each.
schedules = st.lists(
    st.dictionaries(st.integers(0, 3), st.integers(1, 16), min_size=1), min_size=1, max_size=8
)


@given(
    seed=st.integers(),
    drafts=st.lists(st.integers(1, 9), min_size=4, max_size=4),
    schedule=schedules,
    pads=st.floats(0.0, 1.0),
)
def test_any_grouping_of_calls_gives_what_each_stream_gets_alone(
    settings, seed, drafts, schedule, pads
):
    """Predictions, states and known ids are equal, whichever calls were taken together."""
    engine = VoxtralEngine(ToyBatchNetwork(seed, pads), settings)
    streams, alone = streams_of(drafts), streams_of(drafts)
    for batch in schedule:
        answers = engine.decode_batch([streams[i].request(n) for i, n in batch.items()])
        for index, answer in zip(batch, answers, strict=True):
            streams[index].take(answer)
    single = VoxtralEngine(ToyNetwork(seed, pads), settings)
    for batch in schedule:
        for index, steps in batch.items():
            alone[index].take(single.decode_batch([alone[index].request(steps)])[0])

    assert [stream.predictions for stream in alone] == [stream.predictions for stream in streams]
    for stream, other in zip(alone, streams, strict=True):
        assert (None if stream.state is None else attrs.astuple(stream.state)) == (
            None if other.state is None else attrs.astuple(other.state)
        )


def test_streams_that_are_due_share_each_pass(settings):
    """Eight streams take as many passes as one; each counts its own positions of a pass."""
    network = ToyBatchNetwork(pads=1.1, min_margin=0.0)  # no prediction is close
    engine = VoxtralEngine(network, settings)
    streams = [Stream(6, 8) for _ in range(8)]
    engine.decode_batch([Stream(6, 8).request(1)])  # the opening
    network.widths.clear()
    for steps in (1, 1, 3):
        answers = engine.decode_batch([stream.request(steps) for stream in streams])
        for stream, answer in zip(streams, answers, strict=True):
            stream.take(answer)
    works = [answer[2] for answer in answers]

    assert [8, 8, 24] == network.widths
    assert {(24, 3, 1, 1)} == {
        (w.encoder_frames, w.decoder_positions, w.decoder_forwards, w.host_syncs) for w in works
    }


@pytest.mark.parametrize("fail_at", [1, 2, 3, 4])
def test_a_batch_that_failed_can_be_repeated(settings, fail_at):
    """A failed pass leaves every state as it was."""
    engine = VoxtralEngine(ToyBatchNetwork(5, fail_at=fail_at), settings)
    expected = VoxtralEngine(ToyBatchNetwork(5), settings)
    requests = [Stream(6, 1).request(9), Stream(3, 8).request(12)]

    with pytest.raises(RuntimeError, match="out of memory"):
        engine.decode_batch(requests)
    for answer, again in zip(
        expected.decode_batch(requests), engine.decode_batch(requests), strict=True
    ):
        assert answer[0] == again[0]
        assert attrs.astuple(answer[1]) == attrs.astuple(again[1])
