"""Timed text: the emission as a pair, as a value and as a frozen record."""

from __future__ import annotations

import pickle

import attrs

from wlk_core.tokens import ASRToken, Emission

TOKENS = (ASRToken(0.1, 0.4, " one"), ASRToken(0.5, 0.9, " two"))
EMISSION = Emission(TOKENS, 2.0, 0.9)


def test_an_emission_unpacks_into_exactly_two_values():
    """Callers unpack the committed tokens and `processed_up_to`, and nothing else."""
    tokens, processed_up_to = EMISSION

    assert (tokens, processed_up_to) == (TOKENS, 2.0)
    assert len(EMISSION) == 2
    assert pickle.loads(pickle.dumps(EMISSION)) == EMISSION  # noqa: S301 -- our own bytes
    assert isinstance(EMISSION, tuple)


def test_emissions_are_equal_with_their_stable_time_and_each_equals_its_pair():
    """Two emissions that differ in `stable_up_to` alone are different values."""
    other = attrs.evolve(EMISSION, stable_up_to=0.5)

    assert other != EMISSION
    assert len({EMISSION, other, attrs.evolve(other, stable_up_to=0.9)}) == 2


def test_a_changed_copy_has_the_new_values_as_attributes_and_as_a_pair():
    """The unpacked values of a changed emission are the changed ones; the others stay."""
    changed = attrs.evolve(EMISSION, processed_up_to=3.0, committed=())
    tokens, processed_up_to = changed

    assert (tokens, processed_up_to) == ((), 3.0)
    assert changed == Emission((), 3.0, 0.9)


def test_equality_of_emissions_is_transitive():
    """No pair equals an emission, because it would equal two that differ in `stable_up_to`."""
    pair, other = (TOKENS, 2.0), attrs.evolve(EMISSION, stable_up_to=0.0)

    assert pair != EMISSION
    assert pair != EMISSION
    assert other != EMISSION
    assert attrs.evolve(EMISSION) == EMISSION
    assert hash(attrs.evolve(EMISSION)) == hash(EMISSION)
