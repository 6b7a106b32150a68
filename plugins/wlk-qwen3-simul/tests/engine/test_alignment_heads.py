"""Heads files: their content, and the files that are refused."""

from __future__ import annotations

from importlib import resources
import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core import OptionError
from wlk_qwen3_simul.engine.alignment_heads import AlignmentHead, AlignmentHeads


def content(**changes):
    """Return the content of a heads file of a decoder with 3 layers of 4 heads."""
    table = {
        "format": 1,
        "model": "mine",
        "layers": 3,
        "heads": 4,
        "row": "predict",
        "chance": 0.1,
        "source": "me",
        "best": [{"layer": 2, "head": 1, "score": 0.9}, {"layer": 0, "head": 3, "score": 0.8}],
    }
    return json.dumps({**table, **changes})


@given(
    st.sets(st.tuples(st.integers(0, 27), st.integers(0, 15)), min_size=1),
    st.sampled_from(["predict", "self"]),
    st.none() | st.floats(0, 1),
)
def test_heads_are_read_back_as_they_were_written(pairs, row, score):
    """The order, which is that of their scores, is kept; the pairs come in rising order."""
    best = tuple(AlignmentHead(layer=layer, head=head, score=score) for layer, head in pairs)
    heads = AlignmentHeads(
        model="m", layers=28, heads=16, row=row, best=best, chance=score, source="s"
    )
    read = AlignmentHeads.from_json(heads.to_json(), name="x")

    assert heads == read
    assert tuple(sorted(pairs)) == read.pairs


def test_published_files_are_written_as_the_command_writes_them():
    """Reading and writing a file changes nothing, so that a diff shows what changed."""
    for file in (resources.files("wlk_qwen3_simul") / "heads").iterdir():
        text = file.read_text(encoding="utf-8")

        assert text == AlignmentHeads.from_json(text, name=file.name).to_json()


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("{", "is damaged: .* truncated"),
        ("[]", "is invalid: Expected `object`, got `array`"),
        (content(format=2), "is not a heads file of format 1"),
        (content(row="both"), "expected row to be predict or self, got 'both'"),
        (content(layers="3"), "expected layers to be int"),
        (content(model=None), "expected model to be str"),
        (content(chance="low"), "expected chance to be float"),
        (content(best=[]), "names no head"),
        (content(best=[[2, 1]]), r"expected best to hold layer, head and score, got \[2, 1\]"),
        (content(best=[{"layer": 2}]), "expected head to be int, got None"),
        (content(best=[{"layer": 2, "head": 1, "score": "high"}]), "expected score to be a number"),
        (content(best=[{"layer": 2, "head": 4}]), r"names the head 2\.4.*heads 0 to 3"),
        (content(best=[{"layer": -1, "head": 0}]), r"names the head -1\.0"),
        (content(best=[{"layer": 2, "head": 1}] * 2), "names a head twice"),
    ],
)
def test_a_file_that_is_damaged_or_contradicts_itself_is_refused(text, claim):
    """The message is one line that begins with the name of the file."""
    with pytest.raises(OptionError, match=claim) as caught:
        AlignmentHeads.from_json(text, name="heads.json")
    assert str(caught.value).startswith("heads.json")
    assert "\n" not in str(caught.value)
