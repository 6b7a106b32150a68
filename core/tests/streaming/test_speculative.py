"""Decoding several steps at once gives the predictions of single steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.streaming import SpeculativeDecoding, TokenPrediction

PAD, WORD = 0, 1


class Model:
    """A model that predicts any function of all inputs so far, and records its forwards."""

    def __init__(self, seed, *, pads=0.7, margin=9.0):
        self.seed, self.pads, self.margin = seed, pads, margin
        self.inputs, self.widths = [], []

    def forward(self, ids):
        """Predict an id after each input."""
        self.widths.append(len(ids))
        predictions = []
        for token in ids:
            self.inputs.append(token)
            chance = hash((self.seed, *self.inputs)) % 1000 / 1000
            predicted = PAD if chance < self.pads else 1 + int(1000 * chance) % 5
            margin = self.margin if int(10_000 * chance) % 3 else 0.0
            predictions.append(TokenPrediction(predicted, chance, margin))
        self.before_forward = len(self.inputs) - len(ids)
        return predictions

    def truncate(self, count):
        """Drop the inputs that were drafts."""
        del self.inputs[self.before_forward + count :]


def decode(model, count, *, known_ids=(PAD,), width=8, min_margin=1.0):
    """Decode *count* positions, and return the predictions after the last known id."""
    decoding = SpeculativeDecoding(
        count, known_ids=known_ids, pad=PAD, marker=WORD, width=width, min_margin=min_margin
    )
    while not decoding.is_complete:
        ids = decoding.next_ids()
        kept = decoding.accept(model.forward(ids), is_wide=len(ids) > 1)
        if kept < len(ids):
            model.truncate(kept)
    return decoding.predictions


@given(
    st.integers(), st.integers(1, 60), st.integers(1, 12), st.integers(1, 9), st.floats(0.0, 1.0)
)
def test_any_width_gives_the_same_predictions(seed, count, width, prompt, pads):
    """Wrong drafts leave no trace in the predictions or in the cache."""
    single, wide = Model(seed, pads=pads), Model(seed, pads=pads)
    prompt_ids = [3] * prompt
    expected = decode(single, count, known_ids=prompt_ids, width=1)

    assert expected == decode(wide, count, known_ids=prompt_ids, width=width)
    assert single.inputs == wide.inputs
    assert max(0, count - prompt + 1) == len(expected)
    assert count == len(wide.inputs)


@given(st.integers(), st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_calls_can_be_cut_anywhere(seed, counts):
    """Calls that begin with the last prediction of the call before continue it."""
    whole, cut = Model(seed), Model(seed)
    expected = decode(whole, sum(counts))
    predictions, last = [], PAD
    for count in counts:
        predictions += decode(cut, count, known_ids=[last])
        last = predictions[-1].id

    assert expected == predictions


def test_silence_takes_few_forwards():
    """Every forward over silence covers the whole width."""
    model = Model(0, pads=1.1, margin=9.0)
    decode(model, 64, width=8, min_margin=0.0)

    assert [8] * 8 == model.widths


def test_no_draft_follows_a_marker():
    """After a marker comes text, so a draft of silence would be wrong."""
    model = Model(0, pads=1.1)
    decode(model, 9, known_ids=[WORD], width=4, min_margin=0.0)

    assert [1, 4, 4] == model.widths


@pytest.mark.parametrize("width", [2, 5])
def test_a_prediction_with_a_small_margin_is_recomputed_alone(width):
    """A margin that a wider forward could overturn is not taken from a wide forward."""
    model = Model(5, pads=1.1)
    predictions = decode(model, 40, width=width)
    close = sum(prediction.margin < 1.0 for prediction in predictions)

    assert close > 0
    assert model.widths.count(1) >= close
