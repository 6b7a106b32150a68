"""Which heads align: asked for, carried, published, or none that anybody knows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core import OptionError
from wlk_whisper.heads import alignment_heads, parse_heads

TINY = {"layers": 4, "heads": 6, "vocabulary": 51865}
UNKNOWN = {"layers": 4, "heads": 4, "vocabulary": 51865}
UPPER = tuple((layer, head) for layer in (2, 3) for head in range(4))


@given(st.sets(st.tuples(st.integers(0, 31), st.integers(0, 19)), min_size=1))
def test_heads_are_read_back_as_they_were_written(pairs):
    """The option is layer.head, separated by commas; the order does not matter."""
    text = ", ".join(f"{layer}.{head}" for layer, head in pairs)

    assert tuple(sorted(pairs)) == parse_heads(text, layers=32, heads=20)


@pytest.mark.parametrize("text", ["", "2", "2.", "2.0;3.1", "-1.0", "2.0,", "all", "2.0.1"])
def test_what_is_no_list_of_heads_is_refused_with_an_example(text):
    """The message shows how heads are written."""
    with pytest.raises(OptionError, match=r"expected layer\.head,layer\.head"):
        parse_heads(text, layers=4, heads=4)


@pytest.mark.parametrize("text", ["4.0", "2.4", "2.0,17.3"])
def test_a_head_the_model_does_not_have_is_refused(text):
    """The message says which ones there are."""
    with pytest.raises(OptionError, match="expected layers 0 to 3 and heads 0 to 3"):
        parse_heads(text, layers=4, heads=4)


def test_heads_asked_for_come_before_all_others():
    """The option overrides the checkpoint."""
    found = alignment_heads("0.5", [(3, 1)], name="tiny", **TINY)

    assert ((0, 5),) == found.pairs
    assert found.are_known


def test_a_checkpoint_knows_its_own_heads():
    """What comes with the weights comes before what is published for their shape."""
    own = [(3, 1), (2, 2)]

    for found in (
        alignment_heads(None, own, name="tiny", **TINY),
        alignment_heads(None, None, own, name="tiny", **TINY),
        alignment_heads(None, own, [(0, 0)], name="tiny", **TINY),
    ):
        assert ((2, 2), (3, 1)) == found.pairs
        assert found.are_known


@pytest.mark.parametrize(
    "carried", [None, [(layer, head) for layer in (2, 3) for head in range(6)]]
)
def test_the_published_heads_serve_a_model_of_a_published_shape(carried):
    """So they do where the weights carry no more than the default of whoever converted them."""
    found = alignment_heads(None, None, carried, name="somebody/fine-tuned", **TINY)

    assert ((2, 2), (3, 0), (3, 2), (3, 3), (3, 4), (3, 5)) == found.pairs
    assert found.are_known


def test_two_sizes_of_one_shape_are_told_apart_by_name_or_not_at_all():
    """large-v1 and large-v2 have the same layers and other heads."""
    large = {"layers": 32, "heads": 20, "vocabulary": 51865}
    first = alignment_heads(None, None, name="large-v1", **large)
    second = alignment_heads(None, None, name="mlx-community/whisper-large-v2-mlx", **large)
    neither = alignment_heads(None, None, name="somebody/fine-tuned", **large)

    assert (9, 19) in first.pairs
    assert (10, 12) in second.pairs
    assert not neither.are_known


def test_every_published_head_exists_in_its_model():
    """The table holds pairs below the shape they stand for."""
    shapes = {
        (4, 6, 51864), (4, 6, 51865), (6, 8, 51864), (6, 8, 51865), (12, 12, 51864),
        (12, 12, 51865), (24, 16, 51864), (24, 16, 51865), (32, 20, 51866), (4, 20, 51866),
    }  # fmt: skip

    for layers, heads, vocabulary in shapes:
        found = alignment_heads(
            None, None, name="x", layers=layers, heads=heads, vocabulary=vocabulary
        )

        assert found.are_known
        assert all(layer < layers and head < heads for layer, head in found.pairs)


def test_the_upper_half_is_known_where_the_generation_config_names_it():
    """Somebody wrote it down, as for the digits."""
    found = alignment_heads(None, UPPER, name="digits", **UNKNOWN)

    assert UPPER == found.pairs
    assert found.are_known


def test_the_upper_half_among_the_weights_is_what_a_converter_writes_that_knows_nothing():
    """Words are timed by it, as they would be without, and nobody decides by it."""
    found = alignment_heads(None, None, UPPER, name="mine", **UNKNOWN)

    assert alignment_heads(None, None, name="mine", **UNKNOWN) == found
    assert not found.are_known


def test_without_any_knowledge_words_are_timed_by_the_upper_half_and_alignatt_is_refused():
    """The message of the refusal names both ways out."""
    found = alignment_heads(None, None, name="mine", **UNKNOWN)

    assert {2, 3} == {layer for layer, _ in found.pairs}
    assert 8 == len(found.pairs)
    with pytest.raises(OptionError, match=r"model mine.*alignment_heads=.*policy=local-agreement"):
        found.require_known("mine")


@pytest.mark.parametrize("place", ["told", "carried"])
@pytest.mark.parametrize("absent", [(4, 0), (0, 6), (-1, 0), (25, 6)])
def test_the_heads_of_a_parent_are_warned_of_and_make_its_child_one_of_unknown_heads(
    caplog, place, absent
):
    """Not those of the list that the child happens to have, nor those published for its shape."""
    own = {"told": None, place: [(3, 1), absent]}
    found = alignment_heads(None, **own, name="distilled", **TINY)

    assert tuple((layer, head) for layer in (2, 3) for head in range(6)) == found.pairs
    with pytest.raises(OptionError, match=r"model distilled.*alignment_heads=.*policy=local-agr"):
        found.require_known("distilled")
    assert f"names the alignment head {absent[0]}.{absent[1]}" in caplog.text
    assert "4 layers of 6 heads" in caplog.text


def test_the_option_helps_a_child_with_the_heads_of_its_parent(caplog):
    """What is asked for is looked at first, and then there is nothing to warn of."""
    found = alignment_heads("3.1", [(25, 6)], [(25, 6)], name="distilled", **TINY)

    assert ((3, 1),) == found.pairs
    assert found.are_known
    assert not caplog.text


def test_good_heads_among_the_weights_make_up_for_those_of_a_parent_beside_them():
    """Whoever converted the model may have known better."""
    found = alignment_heads(None, [(25, 6)], [(3, 1)], name="distilled", **TINY)

    assert ((3, 1),) == found.pairs
    assert found.are_known
