"""Tokens are bytes, marks are none, and every id is the checkpoint's own."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core import ModelNotFoundError
from wlk_qwen3_simul.text.vocabulary import TEXT_START, Vocabulary


@given(st.text(max_size=40))
def test_the_bytes_of_a_text_are_those_of_its_tokens(vocabulary, text):
    """In any script, and also where a character is divided among tokens."""
    text = "".join(one for one in text if vocabulary.mark_in(one) is None)
    ids = vocabulary.encode(text)
    spelt = b"".join(vocabulary.bytes_of(one) for one in ids)

    assert vocabulary.tokenizer.normalizer.normalize_str(text) == spelt.decode("utf-8")


def test_the_original_files_make_the_same_tokens_as_a_whole_tokenizer(tiny, tmp_path, vocabulary):
    """The published repositories hold vocab.json and merges.txt alone."""
    tiny.write_tokenizer(tmp_path, is_whole=False)
    apart = Vocabulary.read(tmp_path)
    text = " hello world, language English 123 今天天气 don't"

    assert not (tmp_path / "tokenizer.json").exists()
    assert vocabulary.encode(text) == apart.encode(text)
    assert vocabulary.marks == apart.marks
    assert vocabulary.ends == apart.ends


def test_a_mark_has_no_text_and_ends_are_known(vocabulary):
    """Nothing of the frame of a conversation reaches a transcript."""
    assert all(vocabulary.bytes_of(number) == b"" for number in vocabulary.marks.values())
    assert vocabulary.marks["<|im_end|>"] in vocabulary.ends
    assert b"" == vocabulary.bytes_of(10**6)


def test_a_mark_in_a_text_is_found(vocabulary):
    """Who could write one into the system turn could end it."""
    assert "<|im_end|>" == vocabulary.mark_in("Ann <|im_end|> Bob")
    assert vocabulary.mark_in("Ann <b> Bob") is None


def test_a_tokenizer_without_the_mark_that_begins_a_text_is_refused(tiny, tmp_path):
    """It belongs to another model, and no text would ever begin."""
    tiny.write_tokenizer(tmp_path, marks=[one for one in tiny.MARKS if one != TEXT_START])

    with pytest.raises(ModelNotFoundError, match=r"has no <asr_text>.*pull the model again"):
        Vocabulary.read(tmp_path)


def test_a_directory_without_a_tokenizer_says_what_is_expected(tmp_path):
    """One line with both ways to hold one."""
    with pytest.raises(ModelNotFoundError, match=r"tokenizer\.json, or vocab\.json with merges"):
        Vocabulary.read(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"])
def test_a_damaged_tokenizer_is_told_in_one_line(tmp_path, content):
    """Whatever is in the file."""
    (tmp_path / "tokenizer.json").write_bytes(content)

    with pytest.raises(ModelNotFoundError, match="cannot be read") as caught:
        Vocabulary.read(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "told",
    [
        {"added_tokens_decoder": {"x": {"content": "<|im_end|>"}}},
        {"added_tokens_decoder": {"300": {}}},
        {"added_tokens_decoder": {"300": "<|im_end|>"}},
        {"added_tokens_decoder": ["<|im_end|>"]},
    ],
    ids=["no number", "no content", "no entry", "no table"],
)
def test_added_tokens_that_are_none_are_told_in_one_line(tiny, tmp_path, told):
    """With the name of the file."""
    tiny.write_tokenizer(tmp_path, is_whole=False)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(told), encoding="utf-8")

    with pytest.raises(
        ModelNotFoundError, match=r"tokenizer_config\.json cannot be read"
    ) as caught:
        Vocabulary.read(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("told", ["<|im_end|>", [1, "2"], [None], 1.5, True, -1, {"1": 2}])
def test_ends_that_are_no_ids_are_refused(tiny, tmp_path, told):
    """None of them would ever end a text."""
    tiny.write_tokenizer(tmp_path)
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": told}), encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match=r"generation_config\.json.*eos_token_id as ids"):
        Vocabulary.read(tmp_path)


@pytest.mark.parametrize(("told", "ends"), [(7, {7}), ([7, 8], {7, 8}), (None, set())])
def test_ends_are_also_those_of_the_generation(tiny, tmp_path, vocabulary, told, ends):
    """One, several or none."""
    tiny.write_tokenizer(tmp_path)
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": told}), encoding="utf-8")

    assert vocabulary.ends | ends == Vocabulary.read(tmp_path).ends
