"""Heads files: what they say, what they are refused for, and where they are looked for."""

from __future__ import annotations

from importlib import resources
import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core import OptionError
from wlk_qwen3_simul.alignment_heads import (
    FILE,
    AlignmentHead,
    AlignmentHeads,
    load_heads,
    parse_heads,
)
from wlk_qwen3_simul.loading import find_heads

REAL = {"layers": 28, "heads": 16}


def told(**changes):
    """Return the content of a heads file of a decoder with 3 layers of 4 heads."""
    content = {
        "format": 1,
        "model": "mine",
        "layers": 3,
        "heads": 4,
        "row": "predict",
        "chance": 0.1,
        "source": "me",
        "best": [{"layer": 2, "head": 1, "score": 0.9}, {"layer": 0, "head": 3, "score": 0.8}],
    }
    return json.dumps({**content, **changes})


@given(
    st.sets(st.tuples(st.integers(0, 27), st.integers(0, 15)), min_size=1),
    st.sampled_from(["predict", "self"]),
    st.none() | st.floats(0, 1),
)
def test_heads_are_read_back_as_they_were_written(places, row, score):
    """The order, which is that of their scores, is kept; the pairs come in rising order."""
    best = tuple(AlignmentHead(layer=layer, head=head, score=score) for layer, head in places)
    heads = AlignmentHeads(model="m", row=row, best=best, chance=score, source="s", **REAL)
    found = AlignmentHeads.from_json(heads.to_json(), name="x")

    assert heads == found
    assert tuple(sorted(places)) == found.pairs


@pytest.mark.parametrize(
    ("model", "best"), [("Qwen/Qwen3-ASR-0.6B", (20, 3)), ("Qwen/Qwen3-ASR-1.7B", (11, 2))]
)
def test_the_published_heads_of_both_sizes_are_known(model, best, tmp_path):
    """By the repository, its -hf twin, or a directory of the same name; read at their own row."""
    found = load_heads(model, **REAL)

    assert 20 == len(found.best)
    assert best == (found.best[0].layer, found.best[0].head)
    assert "self" == found.row
    assert model == found.model
    assert "WhisperLiveKit" in found.source
    assert found == load_heads(f"{model}-hf", **REAL)
    for twin in ("", "-hf"):
        place = tmp_path / f"{model.partition('/')[2]}{twin}"
        place.mkdir()

        assert found == load_heads(place, **REAL)
    scores = [one.score for one in found.best]
    assert scores == sorted(scores, reverse=True)


def test_published_files_are_written_as_the_command_writes_them():
    """Reading and writing one changes nothing, so that a diff shows what changed."""
    for place in (resources.files("wlk_qwen3_simul") / "heads").iterdir():
        text = place.read_text(encoding="utf-8")

        assert text == AlignmentHeads.from_json(text, name=place.name).to_json()


def test_a_checkpoint_brings_its_own_heads(tmp_path):
    """As a directory or as the file in it."""
    (tmp_path / FILE).write_text(told(), encoding="utf-8")

    for source in (tmp_path, tmp_path / FILE, str(tmp_path)):
        found = load_heads(source, layers=3, heads=4)

        assert ((0, 3), (2, 1)) == found.pairs
        assert 0.1 == found.chance


def test_heads_of_a_model_nobody_asked_are_refused_with_the_command_that_finds_them():
    """Guessed heads commit guessed words."""
    with pytest.raises(OptionError, match=r"detect_heads somebody/tuned --manifest .* --output"):
        load_heads("somebody/tuned", **REAL)


@pytest.mark.parametrize("model", ["somebody/Qwen3-ASR-0.6B", "Qwen3-ASR-0.6B", "Qwen/x"])
def test_a_repository_that_only_ends_alike_has_no_published_heads(model):
    """Whoever trained it further may have moved them."""
    with pytest.raises(OptionError, match="nobody has found"):
        load_heads(model, **REAL)


SMALL, LARGE = "Qwen/Qwen3-ASR-0.6B", "Qwen/Qwen3-ASR-1.7B"
PUBLISHED = resources.files("wlk_qwen3_simul") / "heads"


def test_heads_of_the_other_published_size_are_refused():
    """Both sizes have 28 layers of 16 heads; the file says which one it is of."""
    with pytest.raises(OptionError, match=f"heads of {SMALL}, and the model is {LARGE}; leave"):
        load_heads(PUBLISHED / "qwen3-asr-0.6b.json", model=LARGE, **REAL)


@pytest.mark.parametrize("model", [SMALL, f"{SMALL}-hf", "somebody/tuned", None])
def test_heads_of_the_same_or_an_unknown_model_are_taken(model):
    """A model trained further may be told to use the heads of the one it was."""
    found = load_heads(PUBLISHED / "qwen3-asr-0.6b.json", model=model, **REAL)

    assert SMALL == found.model


@pytest.mark.parametrize("asked", ["1.7b", LARGE, f"{LARGE}-hf"])
def test_the_option_is_held_against_what_is_loaded(asked, tmp_path):
    """By its size, its repository or the twin of that."""
    file = str(PUBLISHED / "qwen3-asr-0.6b.json")
    with pytest.raises(OptionError, match=f"heads of {SMALL}, and the model is {LARGE}"):
        find_heads(file, tmp_path, name=asked, **REAL)

    assert LARGE == find_heads(None, tmp_path, name=asked, **REAL).model


def test_a_heads_file_that_is_not_there_is_missed_by_its_name(tmp_path):
    """It is no model of which heads might be known."""
    file = tmp_path / "heads.json"
    with pytest.raises(OptionError) as caught:
        find_heads(str(file), tmp_path, name="digits", layers=3, heads=4)

    assert f"the heads file {file} does not exist" == str(caught.value)


def test_a_long_list_of_heads_is_a_list():
    """And no name of a file, which could not be that long."""
    every = ",".join(f"{layer}.{head}" for layer in range(28) for head in range(16))
    found = find_heads(f"self:{every}", PUBLISHED, name="digits", **REAL)

    assert 28 * 16 == len(found.best)
    with pytest.raises(OptionError, match="expected predict:"):
        find_heads(every, PUBLISHED, name="digits", **REAL)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    """In one line, as any other file that is no heads file."""
    file = tmp_path / "heads.json"
    file.write_bytes(b"\xff\xfe")

    with pytest.raises(OptionError, match=r"cannot be read as a heads file .*detect_heads") as seen:
        load_heads(file, layers=3, heads=4)
    assert "\n" not in str(seen.value)


def test_heads_of_another_model_are_refused():
    """The message tells both shapes and the command."""
    with pytest.raises(
        OptionError, match=r"28 layers of 16 heads, and this decoder has 4 of 8.*detect_heads"
    ):
        load_heads("Qwen/Qwen3-ASR-0.6B", layers=4, heads=8)


@pytest.mark.parametrize(
    ("content", "claim"),
    [
        ("{", "no JSON"),
        ("[]", "no heads file of format 1"),
        (told(format=2), "no heads file of format 1"),
        (told(row="both"), "expected row to be predict or self, got 'both'"),
        (told(layers="3"), "expected layers to be int"),
        (told(model=None), "expected model to be str"),
        (told(chance="low"), "expected chance to be float"),
        (told(best=[]), "names no head"),
        (told(best=[[2, 1]]), r"expected best to hold layer, head and score, got \[2, 1\]"),
        (told(best=[{"layer": 2}]), "expected head to be int, got None"),
        (told(best=[{"layer": 2, "head": 1, "score": "high"}]), "expected score to be a number"),
        (told(best=[{"layer": 2, "head": 4}]), r"names the head 2\.4.*heads 0 to 3"),
        (told(best=[{"layer": -1, "head": 0}]), r"names the head -1\.0"),
        (told(best=[{"layer": 2, "head": 1}] * 2), "names a head twice"),
    ],
)
def test_a_file_that_is_damaged_or_contradicts_itself_is_refused(tmp_path, content, claim):
    """In one line that begins with the name of the file."""
    file = tmp_path / "heads.json"
    file.write_text(content, encoding="utf-8")

    with pytest.raises(OptionError, match=claim) as caught:
        load_heads(file, layers=3, heads=4)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, unique=True),
    st.sampled_from(["predict", "self"]),
)
def test_a_list_of_heads_says_at_which_row_they_are_read(places, row):
    """The row comes in front: read at the other one, every head is as good as chance."""
    text = f"{row}:" + ", ".join(f"{layer}.{head}" for layer, head in places)
    found = parse_heads(text, layers=3, heads=4)

    assert tuple(sorted(places)) == found.pairs
    assert row == found.row


@pytest.mark.parametrize(
    "text", ["", "2.1", "self:", "self:2", "both:2.1", "self:2.1;0.0", "self:²·1"]
)
def test_what_is_no_list_of_heads_is_refused_with_an_example(text):
    """The message shows how heads are written."""
    with pytest.raises(OptionError, match=r"such as predict:2\.0,3\.1"):
        parse_heads(text, layers=3, heads=4)


@pytest.mark.parametrize("text", ["self:3.0", "predict:0.4"])
def test_a_head_the_model_does_not_have_is_refused(text):
    """The message says which ones there are."""
    with pytest.raises(OptionError, match="layers 0 to 2 and heads 0 to 3"):
        parse_heads(text, layers=3, heads=4)
