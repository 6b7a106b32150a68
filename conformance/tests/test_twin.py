"""Twins: the same audio in other calls, which must give the same words."""

from __future__ import annotations

import pytest

from wlk_conformance.sessions.oracle import Life
from wlk_conformance.sessions.session import Action, Session, Tape
from wlk_conformance.sessions.shrink import compare, twins_of
from wlk_core import ASRToken


def test_each_life_of_a_stream_has_a_twin():
    """It begins where the life began, and has its flushes twice and its pauses in two halves."""
    actions = [
        Action(do="open", options={"policy": "native"}),
        Action(do="insert", samples=8_960),
        Action(do="exhaust"),
        Action(do="reset"),
        Action(do="insert", samples=7_680),
        Action(do="start_silence", faults=(1,)),
        Action(do="end_silence", seconds=2.0),
        Action(do="end_silence", seconds=0.0),
        Action(do="finish"),
        Action(do="process"),
    ]
    lives = [Life(), Life(first_sample=8_960)]

    tapes = [Tape(kind="speech", count=5)]
    drawn = Session(name="by hand", tapes=tapes, actions=actions)

    broken, twin = twins_of(drawn, 0, lives)

    assert broken is None
    assert [8_960] == [tape.first_sample for tape in twin.tapes]
    assert ["open", "insert", "drain", *2 * ["start_silence"], *3 * ["end_silence"]] == [
        action.do for action in twin.actions
    ]
    assert [1.0, pytest.approx(1.7), 0.0] == [a.seconds for a in twin.actions[-3:]]


def life_of(*tokens, pause, is_complete=True):
    """Return a life with a pause of so many seconds after its first second."""
    life = Life(is_complete=is_complete)
    life.clock.add_audio(16_000)
    life.clock.add_pause(pause)
    life.clock.add_audio(16_000)
    life.tokens += tokens
    return life


ONE, TWO = ASRToken(0.2, 0.8, " one"), ASRToken(3.1, 3.5, " two")


def test_a_longer_pause_moves_the_words_after_it():
    """Times are compared without the pauses, so that a drift with their length is found."""
    moved = life_of(ONE, ASRToken(3.8, 4.2, " two"), pause=2.7)
    drifted = life_of(ONE, ASRToken(4.1, 4.5, " two"), pause=2.7)

    assert [] == list(compare(life_of(ONE, TWO, pause=2.0), moved, 0))
    (found,) = compare(life_of(ONE, TWO, pause=2.0), drifted, 0)
    assert "differs" == found.kind
    assert "0.300 s off" in found.message


def test_a_life_without_its_end_may_have_fewer_words():
    """What was not finished may be held back, and a finished life may lose nothing."""
    twin = life_of(ONE, TWO, pause=2.0)

    assert [] == list(compare(life_of(ONE, pause=2.0, is_complete=False), twin, 0))
    assert 1 == len(list(compare(life_of(ONE, pause=2.0), twin, 0)))
