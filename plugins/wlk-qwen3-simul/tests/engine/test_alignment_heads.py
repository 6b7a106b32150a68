"""Alignment heads: their files, and which ones a model gets."""

from __future__ import annotations

from importlib import resources
import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core import OptionError
from wlk_qwen3_simul.engine.alignment_heads import (
    HEADS_FILE,
    AlignmentHead,
    AlignmentHeads,
    find_heads,
    likely_heads,
)

REAL = {"layers": 28, "heads": 16}
SMALL, LARGE = "Qwen/Qwen3-ASR-0.6B", "Qwen/Qwen3-ASR-1.7B"
PUBLISHED = resources.files("wlk_qwen3_simul") / "heads"
SMALL_FILE = str(PUBLISHED / "qwen3-asr-0.6b.json")


def content(**changes):
    """Return the content of a heads file for a decoder with 3 layers of 4 heads."""
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


def compact(**changes):
    """Return a whisperlivekit heads file for the same decoder."""
    table = {
        "model": "theirs",
        "num_layers": 3,
        "num_heads": 4,
        "ts_matrix": [[0.0] * 4] * 3,
        "alignment_heads_compact": [[2, 1], [0, 3]],
    }
    return json.dumps({**table, **changes})


@given(
    st.sets(st.tuples(st.integers(0, 27), st.integers(0, 15)), min_size=1),
    st.sampled_from(["predict", "self"]),
    st.none() | st.floats(0, 1),
)
def test_heads_are_read_back_as_they_were_written(pairs, row, score):
    """They stay in the order of their scores; `pairs` are in ascending order."""
    best = tuple(AlignmentHead(layer=layer, head=head, score=score) for layer, head in pairs)
    heads = AlignmentHeads(
        model="m", layers=28, heads=16, row=row, best=best, chance=score, source="s"
    )
    read = AlignmentHeads.from_json(heads.to_json().encode(), name="x")

    assert read == heads
    assert read.pairs == tuple(sorted(pairs))


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("{", "is damaged: .* truncated"),
        (content(row="both"), r"Invalid enum value 'both' - at `\$\.row`"),
        (content(best=[]), r"length >= 1 - at `\$\.best`"),
        (content(best=[{"layer": 2, "head": 4}]), r"names the head 2\.4.*heads 0 to 3"),
        (content(best=[{"layer": 2, "head": 1}] * 2), "names a head twice"),
        (compact(alignment_heads_compact=[[2, 4]]), r"names the head 2\.4"),
    ],
)
def test_a_file_that_is_damaged_or_contradicts_itself_is_refused(text, claim, tmp_path):
    """The message is one line that begins with the file name."""
    file = tmp_path / "heads.json"
    file.write_text(text, encoding="latin-1")

    with pytest.raises(OptionError, match=claim) as caught:
        find_heads(str(file), tmp_path, name="digits", layers=3, heads=4)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("names", "model", "best"),
    [
        (["0.6b", "Qwen3-0.6B", SMALL, f"{SMALL}-hf"], SMALL, (20, 3)),
        (["1.7B", LARGE, "mlx-community/Qwen3-ASR-1.7B-4bit"], LARGE, (11, 2)),
    ],
)
def test_the_published_heads_of_both_sizes_are_found(names, model, best, tmp_path):
    """An alias, a repository, a conversion and a directory with that name all lead to them."""
    directory = tmp_path / model.partition("/")[2]
    directory.mkdir()
    for name in (*names, str(directory)):
        heads = find_heads(None, tmp_path, name=name, **REAL)

        assert (heads.model, heads.row, len(heads.best)) == (model, "self", 20)
        assert (heads.best[0].layer, heads.best[0].head) == best
    scores = [head.score for head in heads.best]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("text", "row", "chance"), [(content(), "predict", 0.1), (compact(), "self", None)]
)
def test_a_checkpoint_has_heads_of_its_own(text, row, chance, tmp_path):
    """The file comes from this program or from whisperlivekit."""
    (tmp_path / HEADS_FILE).write_text(text, encoding="utf-8")
    heads = find_heads(None, tmp_path, name="mine", layers=3, heads=4)

    assert heads.pairs == ((0, 3), (2, 1))
    assert (heads.row, heads.chance) == (row, chance)


def test_a_file_without_sizes_has_those_of_the_decoder(tmp_path):
    """Other files of whisperlivekit list the heads alone; each is checked against the decoder."""
    file = tmp_path / "heads.json"
    file.write_text('{"alignment_heads_compact": [[2, 1], [0, 3]]}', encoding="utf-8")
    found = find_heads(str(file), tmp_path, name="mine", layers=3, heads=4)

    assert (found.pairs, found.layers, found.heads) == (((0, 3), (2, 1)), 3, 4)
    with pytest.raises(OptionError, match=r"the head 2\.1, but its decoder has layers 0 to 1"):
        find_heads(str(file), tmp_path, name="mine", layers=2, heads=4)


@pytest.mark.parametrize(
    ("width", "layers", "model"),
    [(1024, 28, SMALL), (2048, 28, LARGE), (1024, 4, None), (1, 28, None)],
)
def test_a_model_of_another_owner_has_likely_heads_at_most(width, layers, model, tmp_path):
    """Fine-tuning may have moved the heads away from those of the published model."""
    heads = likely_heads(width=width, layers=layers, heads=16)

    assert find_heads(None, tmp_path, name="owner/Qwen3-ASR-0.6B", **REAL) is None
    assert (heads and heads.model) == model


def test_heads_of_another_model_are_refused(tmp_path):
    """Both sizes have 28 layers of 16 heads, so the model in the file tells them apart."""
    with pytest.raises(OptionError, match=f"heads of {SMALL}, but the model is .*; leave"):
        find_heads(SMALL_FILE, tmp_path, name=f"{LARGE}-hf", **REAL)
    with pytest.raises(
        OptionError, match=r"28 layers of 16 heads, but this decoder has 4 of 8.*detect_heads"
    ):
        find_heads(None, tmp_path, name=SMALL, layers=4, heads=8)


@given(
    st.lists(st.tuples(st.integers(0, 27), st.integers(0, 15)), min_size=1, unique=True),
    st.sampled_from(["predict", "self"]),
)
def test_a_list_of_heads_begins_with_its_row(pairs, row):
    """Read at the other row, every head is no better than chance; a list can be long."""
    text = f"{row}:" + ", ".join(f"{layer}.{head}" for layer, head in pairs)
    heads = find_heads(text, PUBLISHED, name="digits", **REAL)

    assert heads.pairs == tuple(sorted(pairs))
    assert heads.row == row


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2.1", r"such as predict:2\.0,3\.1"),
        ("both:2.1", r"such as predict:2\.0,3\.1"),
        ("self:3.0", "layers 0 to 2 and heads 0 to 3"),
        ("missing.json", "the heads file missing.json does not exist"),
    ],
)
def test_an_invalid_option_is_refused_with_what_is_expected(text, message, tmp_path):
    """The message shows how heads are written, or which heads the decoder has."""
    with pytest.raises(OptionError, match=message):
        find_heads(text, tmp_path, name="digits", layers=3, heads=4)
