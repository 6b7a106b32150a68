"""Alignment heads are found in the option, beside the model, or among the published files."""

from __future__ import annotations

from importlib import resources
import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core import OptionError
from wlk_qwen3_simul.engine.find_heads import HEADS_FILE, find_heads, load_heads, parse_heads

REAL = {"layers": 28, "heads": 16}
SMALL, LARGE = "Qwen/Qwen3-ASR-0.6B", "Qwen/Qwen3-ASR-1.7B"
PUBLISHED = resources.files("wlk_qwen3_simul") / "heads"
CONTENT = json.dumps(
    {
        "format": 1,
        "model": "mine",
        "layers": 3,
        "heads": 4,
        "row": "predict",
        "chance": 0.1,
        "best": [{"layer": 2, "head": 1, "score": 0.9}, {"layer": 0, "head": 3, "score": 0.8}],
    }
)


@pytest.mark.parametrize(("model", "best"), [(SMALL, (20, 3)), (LARGE, (11, 2))])
def test_the_published_heads_of_both_sizes_are_found(model, best, tmp_path):
    """They are found by the repository, its -hf twin, or a directory of the same name."""
    heads = load_heads(model, **REAL)

    assert 20 == len(heads.best)
    assert best == (heads.best[0].layer, heads.best[0].head)
    assert "self" == heads.row
    assert model == heads.model
    assert "WhisperLiveKit" in heads.source
    assert heads == load_heads(f"{model}-hf", **REAL)
    for twin in ("", "-hf"):
        directory = tmp_path / f"{model.partition('/')[2]}{twin}"
        directory.mkdir()

        assert heads == load_heads(directory, **REAL)
    scores = [head.score for head in heads.best]
    assert scores == sorted(scores, reverse=True)


def test_a_checkpoint_has_heads_of_its_own(tmp_path):
    """The source is the directory, or the file in it."""
    (tmp_path / HEADS_FILE).write_text(CONTENT, encoding="utf-8")

    for source in (tmp_path, tmp_path / HEADS_FILE, str(tmp_path)):
        heads = load_heads(source, layers=3, heads=4)

        assert ((0, 3), (2, 1)) == heads.pairs
        assert 0.1 == heads.chance


def test_a_file_that_is_damaged_is_refused_by_its_name(tmp_path):
    """The message begins with the path that was read."""
    file = tmp_path / "heads.json"
    file.write_text("{", encoding="utf-8")

    with pytest.raises(OptionError, match="is damaged: ") as caught:
        load_heads(file, layers=3, heads=4)
    assert str(caught.value).startswith(str(file))


def test_unknown_heads_are_refused_with_the_command_that_finds_them():
    """Guessed heads would commit guessed words."""
    with pytest.raises(OptionError, match=r"detect_heads owner/tuned --manifest .* --output"):
        load_heads("owner/tuned", **REAL)


@pytest.mark.parametrize("model", ["owner/Qwen3-ASR-0.6B", "Qwen3-ASR-0.6B", "Qwen/x"])
def test_a_repository_of_another_owner_has_no_published_heads(model):
    """Further training may have moved them."""
    with pytest.raises(OptionError, match=r"the alignment heads of .* are unknown"):
        load_heads(model, **REAL)


def test_heads_of_the_other_published_size_are_refused():
    """Both sizes have 28 layers of 16 heads, so that the file names its model."""
    with pytest.raises(OptionError, match=f"heads of {SMALL}, and the model is {LARGE}; leave"):
        load_heads(PUBLISHED / "qwen3-asr-0.6b.json", model=LARGE, **REAL)


@pytest.mark.parametrize("model", [SMALL, f"{SMALL}-hf", "owner/tuned", None])
def test_heads_of_the_same_or_an_unknown_model_are_accepted(model):
    """A model trained further may use the heads of the model it was."""
    heads = load_heads(PUBLISHED / "qwen3-asr-0.6b.json", model=model, **REAL)

    assert SMALL == heads.model


@pytest.mark.parametrize("name", ["1.7b", LARGE, f"{LARGE}-hf"])
def test_the_option_is_compared_with_the_model_that_is_loaded(name, tmp_path):
    """The model may be named by its size, its repository or the -hf twin."""
    file = str(PUBLISHED / "qwen3-asr-0.6b.json")
    with pytest.raises(OptionError, match=f"heads of {SMALL}, and the model is {LARGE}"):
        find_heads(file, tmp_path, name=name, **REAL)

    assert LARGE == find_heads(None, tmp_path, name=name, **REAL).model


def test_a_missing_heads_file_is_reported_by_its_name(tmp_path):
    """A name that ends in .json is not taken for a model."""
    file = tmp_path / "heads.json"
    with pytest.raises(OptionError) as caught:
        find_heads(str(file), tmp_path, name="digits", layers=3, heads=4)

    assert f"the heads file {file} does not exist" == str(caught.value)


def test_a_long_list_of_heads_is_a_list():
    """It is not taken for a file, whose name could not be that long."""
    every = ",".join(f"{layer}.{head}" for layer in range(28) for head in range(16))
    heads = find_heads(f"self:{every}", PUBLISHED, name="digits", **REAL)

    assert 28 * 16 == len(heads.best)
    with pytest.raises(OptionError, match="expected predict:"):
        find_heads(every, PUBLISHED, name="digits", **REAL)


def test_a_binary_file_is_refused(tmp_path):
    """The message is one line, as for any other file that does not hold heads."""
    file = tmp_path / "heads.json"
    file.write_bytes(b"\xff\xfe")

    with pytest.raises(
        OptionError, match=r"cannot be read as a heads file .*detect_heads"
    ) as caught:
        load_heads(file, layers=3, heads=4)
    assert "\n" not in str(caught.value)


def test_heads_of_another_model_are_refused():
    """The message contains both shapes and the command."""
    with pytest.raises(
        OptionError, match=r"28 layers of 16 heads, and this decoder has 4 of 8.*detect_heads"
    ):
        load_heads(SMALL, layers=4, heads=8)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, unique=True),
    st.sampled_from(["predict", "self"]),
)
def test_a_list_of_heads_begins_with_its_row(pairs, row):
    """Read at the other row, every head is as good as chance."""
    text = f"{row}:" + ", ".join(f"{layer}.{head}" for layer, head in pairs)
    heads = parse_heads(text, layers=3, heads=4)

    assert tuple(sorted(pairs)) == heads.pairs
    assert row == heads.row


@pytest.mark.parametrize(
    "text", ["", "2.1", "self:", "self:2", "both:2.1", "self:2.1;0.0", "self:²·1"]
)
def test_an_invalid_list_of_heads_is_refused_with_an_example(text):
    """The message shows how heads are written."""
    with pytest.raises(OptionError, match=r"such as predict:2\.0,3\.1"):
        parse_heads(text, layers=3, heads=4)


@pytest.mark.parametrize("text", ["self:3.0", "predict:0.4"])
def test_a_head_that_the_model_lacks_is_refused(text):
    """The message contains the layers and heads of the decoder."""
    with pytest.raises(OptionError, match="layers 0 to 2 and heads 0 to 3"):
        parse_heads(text, layers=3, heads=4)
