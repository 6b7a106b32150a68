"""Decoding several steps at once says what decoding one by one says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.streaming import TokenPrediction, speculative_decode

PAD, WORD = 0, 1


class Model:
    """A model whose choice is any function of all inputs so far; it counts its passes."""

    def __init__(self, seed, *, pads=0.7, margin=9.0):
        self.seed, self.pads, self.margin = seed, pads, margin
        self.inputs, self.widths = [], []

    def forward(self, ids):
        """Choose after each input."""
        self.widths.append(len(ids))
        choices = []
        for token in ids:
            self.inputs.append(token)
            chance = hash((self.seed, *self.inputs)) % 1000 / 1000
            choice = PAD if chance < self.pads else 1 + int(1000 * chance) % 5
            margin = self.margin if int(10_000 * chance) % 3 else 0.0
            choices.append(TokenPrediction(choice, chance, margin))
        self.kept = len(self.inputs) - len(ids)
        return choices

    def truncate(self, count):
        """Forget inputs that did not come."""
        del self.inputs[self.kept + count :]


def decode(model, count, *, given_ids=(PAD,), width=8, min_margin=1.0):
    """Decode in one call."""
    return speculative_decode(
        model, count, known_ids=given_ids, pad=PAD, marker=WORD, width=width, min_margin=min_margin
    )


@given(
    st.integers(), st.integers(1, 60), st.integers(1, 12), st.integers(1, 9), st.floats(0.0, 1.0)
)
def test_any_width_says_the_same(seed, count, width, prompt, pads):
    """Drafts that were wrong leave no trace, in the choices nor in the cache."""
    single, wide = Model(seed, pads=pads), Model(seed, pads=pads)
    prompt_ids = [3] * prompt
    expected = decode(single, count, given_ids=prompt_ids, width=1)

    assert expected == decode(wide, count, given_ids=prompt_ids, width=width)
    assert single.inputs == wide.inputs
    assert max(0, count - prompt + 1) == len(expected)
    assert count == len(wide.inputs)


@given(st.integers(), st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_calls_can_be_cut_anywhere(seed, counts):
    """The last choice is what is given to the next call."""
    whole, cut = Model(seed), Model(seed)
    expected = decode(whole, sum(counts))
    came, last = [], PAD
    for count in counts:
        came += decode(cut, count, given_ids=[last])
        last = came[-1].id

    assert expected == came


def test_silence_takes_few_passes():
    """Where nothing is said a pass covers the whole width."""
    model = Model(0, pads=1.1, margin=9.0)
    decode(model, 64, width=8, min_margin=0.0)

    assert [8] * 8 == model.widths


def test_nothing_is_drafted_behind_a_marker():
    """After a marker comes text: a draft would be thrown away."""
    model = Model(0, pads=1.1)
    decode(model, 9, given_ids=[WORD], width=4, min_margin=0.0)

    assert [1, 4, 4] == model.widths


@pytest.mark.parametrize("width", [2, 5])
def test_a_close_call_is_made_alone(width):
    """A choice whose lead is smaller than what a wider pass may change is not taken from one."""
    model = Model(5, pads=1.1)
    choices = decode(model, 40, width=width)
    close = sum(choice.margin < 1.0 for choice in choices)

    assert close > 0
    assert model.widths.count(1) >= close
