"""A draft changes what a text costs, never what it says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_qwen3_simul.simul.said import Row, said_of
from wlk_qwen3_simul.simul.speak import LOOP_TIMES, speak

PROMPT = (1, 2, 3)


def told(network, *, draft=(), ends=frozenset({5}), room=20, halt=None):
    """Return what the network says behind the prompt, and its memory."""
    memory = network.open()
    spoken = speak(
        network,
        memory,
        [],
        forced=PROMPT,
        draft=draft,
        room=room,
        ends=ends,
        audio=(0, 2),
        halt=halt,
    )
    return spoken, memory


def astray(rewind):
    """Return a halt where a token was heard more than *rewind* frames before an earlier one."""

    def halt(ids, rows):
        frames = [one.frame for one in said_of(ids, rows, by_self=False)]
        return frames[-1] < max(frames) - rewind

    return halt


@given(
    st.integers(0, 300),
    st.lists(st.integers(0, 30), max_size=8),
    st.integers(0, 20),
    st.sampled_from([None, *map(astray, (0, 1, 3))]),
)
def test_the_text_is_that_without_a_draft(toy, seed, guess, right, halt):
    """A draft that is right at first and wrong then, or right all along, or never."""
    network = toy(seed=seed, vocabulary=40)
    endless, _ = told(network, ends=frozenset())  # what a draft may hold behind the end
    plain, _ = told(network, halt=halt)
    drafted, memory = told(network, draft=(*endless.ids[:right], *guess), halt=halt)

    assert plain.ids == drafted.ids
    assert plain.ended == drafted.ended
    assert plain.loop == drafted.loop
    assert [one.frame for one in plain.rows] == [one.frame for one in drafted.rows]
    assert len(PROMPT) + len(plain.ids) == memory.length


def test_a_draft_that_is_right_takes_one_pass(toy):
    """And one transfer to the host."""
    network = toy(seed=3)
    plain, _ = told(network, room=9)
    drafted, _ = told(network, room=9, draft=plain.ids)

    assert 1 == drafted.work.decoder_forwards == drafted.work.host_syncs
    assert len(plain.ids) + 1 == plain.work.decoder_forwards


def test_the_room_is_kept(toy):
    """Whatever the draft says."""
    network = toy(seed=3)

    assert 4 == len(told(network, room=4)[0].ids)
    assert 4 >= len(told(network, room=4, draft=range(10))[0].ids)


def test_a_loop_ends_the_text(toy):
    """A model that repeats itself for ever is stopped, and it is told where."""
    network = toy(seed=1, sharpness=0.0)  # nothing is likelier than token 0
    spoken, _ = told(network, room=200)

    assert not spoken.ended
    assert (0, 1, LOOP_TIMES) == (spoken.loop.start, spoken.loop.period, spoken.loop.end)
    assert spoken.behind(3).loop.end == LOOP_TIMES - 3


def test_a_halt_is_asked_behind_every_token(toy):
    """With a row more than tokens."""
    network = toy(seed=2)
    seen = []

    def halt(ids, rows):
        seen.append((len(ids), len(rows)))
        return len(ids) == 3

    spoken, _ = told(network, halt=halt)

    assert [(1, 2), (2, 3), (3, 4)] == seen
    assert 3 == len(spoken.ids)


def test_a_halt_inside_a_draft_cuts_it_there(toy):
    """What the model would have said behind it is not said, and not held."""
    network = toy(seed=2)
    endless, _ = told(network, ends=frozenset())
    spoken, memory = told(network, draft=endless.ids[:8], halt=lambda ids, _: len(ids) == 3)

    assert endless.ids[:3] == spoken.ids
    assert 4 == len(spoken.rows)
    assert len(PROMPT) + 3 == memory.length


def test_a_draft_that_holds_a_loop_is_cut_where_the_loop_is_complete(toy):
    """As the text without it is."""
    network = toy(seed=1, sharpness=0.0)
    plain, _ = told(network, room=200)
    drafted, _ = told(network, room=200, draft=[0] * (LOOP_TIMES + 5))

    assert plain.ids == drafted.ids
    assert plain.loop == drafted.loop


def test_overflow_is_an_error_and_not_a_text(toy):
    """Numbers that are none mean another arithmetic is needed."""
    network = toy(seed=2)
    network.out[:] = float("nan")

    with pytest.raises(FloatingPointError, match="load the model in float32 or bfloat16"):
        told(network)


def test_a_token_is_heard_at_the_row_its_heads_look_from():
    """The row that chose it, or the one it was fed at; a row that looked away says nothing."""
    rows = [Row(7, -0.1, 10), Row(8, -0.2, None), Row(9, -0.3, 30)]

    assert [10, 10] == [one.frame for one in said_of([7, 8], rows, by_self=False)]
    assert [0, 30] == [one.frame for one in said_of([7, 8], rows, by_self=True)]
    assert [-0.1, -0.2] == [one.log_prob for one in said_of([7, 8], rows, by_self=True)]
