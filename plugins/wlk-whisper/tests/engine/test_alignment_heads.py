"""The choice of alignment heads: the option's, the model's, its shape's, or unknown ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core import OptionError
from wlk_whisper.engine.alignment_heads import choose_alignment_heads

TINY, UNPUBLISHED = (4, 6, 51865), (4, 4, 51865)
UPPER = tuple((layer, head) for layer in (2, 3) for head in range(4))


@given(st.sets(st.tuples(st.integers(0, 31), st.integers(0, 19)), min_size=1))
def test_heads_are_read_back_as_they_were_written(pairs):
    """The option is layer.head, separated by commas; the order does not matter."""
    text = ", ".join(f"{layer}.{head}" for layer, head in pairs)
    heads = choose_alignment_heads(text, None, name="", shape=(32, 20, 51865))

    assert heads.pairs == tuple(sorted(pairs))


@pytest.mark.parametrize("text", ["", "2", "2.0;3.1", "-1.0", "2.0,", "2.0.1"])
def test_an_invalid_list_of_heads_is_refused_with_an_example(text):
    """The message shows how heads are written."""
    with pytest.raises(OptionError, match=r"expected layer\.head,layer\.head"):
        choose_alignment_heads(text, None, name="", shape=UNPUBLISHED)


@pytest.mark.parametrize("text", ["4.0", "2.4", "2.0,17.3"])
def test_a_head_that_the_model_does_not_have_is_refused(text):
    """The message names the range of layers and heads."""
    with pytest.raises(OptionError, match="expected layers 0 to 3 and heads 0 to 3"):
        choose_alignment_heads(text, None, name="", shape=UNPUBLISHED)


PUBLISHED = ((2, 2), (3, 0), (3, 2), (3, 3), (3, 4), (3, 5))
TINY_UPPER = tuple((layer, head) for layer in (2, 3) for head in range(6))
OWN, FOREIGN = [(3, 1), (2, 2)], [(25, 6)]


@pytest.mark.parametrize(
    ("sources", "shape", "pairs", "are_known"),
    [
        (("0.5", OWN), TINY, ((0, 5),), True),
        ((None, OWN), TINY, ((2, 2), (3, 1)), True),
        ((None, None, OWN), TINY, ((2, 2), (3, 1)), True),
        ((None, OWN, [(0, 0)]), TINY, ((2, 2), (3, 1)), True),
        ((None, None), TINY, PUBLISHED, True),
        ((None, None, TINY_UPPER), TINY, PUBLISHED, True),
        ((None, UPPER), UNPUBLISHED, UPPER, True),
        ((None, None, UPPER), UNPUBLISHED, UPPER, False),
        ((None, None), UNPUBLISHED, UPPER, False),
        (("3.1", FOREIGN, FOREIGN), TINY, ((3, 1),), True),
        ((None, FOREIGN, [(3, 1)]), TINY, ((3, 1),), True),
    ],
    ids=[
        "the option", "the generation config", "the weights", "the config before the weights",
        "a published shape", "a converter's default among the weights", "the upper half on purpose",
        "the same as a default", "unknown", "the option before those of a parent",
        "the weights before those of a parent",
    ],
)  # fmt: skip
def test_heads_come_from_the_first_source_that_names_any(sources, shape, pairs, are_known):
    """Converters write the upper half as a default, so among weights it carries no information."""
    heads = choose_alignment_heads(*sources, name="someone/fine-tuned", shape=shape)

    assert heads.pairs == pairs
    assert heads.are_known == are_known


def test_two_sizes_of_one_shape_are_distinguished_by_name_or_not_at_all():
    """large-v1 and large-v2 have the same layers and other heads."""
    names = ("large-v1", "mlx-community/whisper-large-v2-mlx", "someone/fine-tuned")
    first, second, neither = (
        choose_alignment_heads(None, None, name=name, shape=(32, 20, 51865)) for name in names
    )

    assert (9, 19) in first.pairs
    assert (10, 12) in second.pairs
    assert not neither.are_known


@pytest.mark.parametrize("source", ["generation_config", "weights"])
@pytest.mark.parametrize("absent", [(4, 0), (0, 6)])
def test_a_distilled_model_with_heads_of_its_parent_has_unknown_heads(caplog, source, absent):
    """Neither the heads of that list that exist nor those published for the shape are used."""
    own = {"generation_config": None, source: [(3, 1), absent]}
    heads = choose_alignment_heads(None, **own, name="distilled", shape=TINY)

    assert heads.pairs == tuple((layer, head) for layer in (2, 3) for head in range(6))
    with pytest.raises(OptionError, match=r"model distilled.*alignment_heads=.*policy=local-agr"):
        heads.require_known("distilled")
    assert f"names the alignment head {absent[0]}.{absent[1]}" in caplog.text
    assert "4 layers of 6 heads" in caplog.text
