"""Tokens are bytes, special tokens have no text, and every id is the checkpoint's own."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core import ModelNotFoundError
from wlk_qwen3_simul.engine.vocabulary import TEXT_START, Vocabulary


@given(st.text(max_size=40))
def test_the_bytes_of_a_text_are_those_of_its_tokens(vocabulary, text):
    """This holds in any script, even if a character is divided among tokens."""
    text = "".join(letter for letter in text if vocabulary.special_token_in(letter) is None)
    ids = vocabulary.encode(text)
    joined = b"".join(vocabulary.bytes_of(token) for token in ids)

    assert vocabulary.tokenizer.normalizer.normalize_str(text) == joined.decode("utf-8")


def test_the_original_files_make_the_same_tokens_as_a_whole_tokenizer(tiny, tmp_path, vocabulary):
    """The published repositories have only vocab.json and merges.txt."""
    tiny.write_tokenizer(tmp_path, is_whole=False)
    apart = Vocabulary.read(tmp_path)
    text = " hello world, language English 123 今天天气 don't"

    assert not (tmp_path / "tokenizer.json").exists()
    assert vocabulary.encode(text) == apart.encode(text)
    assert vocabulary.special_ids == apart.special_ids
    assert vocabulary.end_ids == apart.end_ids


def test_a_tokenizer_without_the_token_that_begins_a_text_is_refused(tiny, tmp_path):
    """It belongs to another model, and no transcript would ever begin."""
    tokens = [token for token in tiny.SPECIAL_TOKENS if token != TEXT_START]
    tiny.write_tokenizer(tmp_path, special_tokens=tokens)

    with pytest.raises(ModelNotFoundError, match=r"has no <asr_text>.*pull the model again"):
        Vocabulary.read(tmp_path)


def test_a_directory_without_a_tokenizer_is_refused_with_what_is_expected(tmp_path):
    """The message names both ways to store a tokenizer."""
    with pytest.raises(ModelNotFoundError, match=r"tokenizer\.json, or vocab\.json with merges"):
        Vocabulary.read(tmp_path)


@pytest.mark.parametrize(("value", "ends"), [(7, {7}), ([7, 8], {7, 8}), (None, set())])
def test_end_ids_are_also_those_of_the_generation_config(tiny, tmp_path, vocabulary, value, ends):
    """`eos_token_id`, which is an id, a list or null, is added to those of the tokenizer."""
    tiny.write_tokenizer(tmp_path)
    path = tmp_path / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": value}), encoding="utf-8")

    assert Vocabulary.read(tmp_path).end_ids == vocabulary.end_ids | ends


@pytest.mark.parametrize(
    ("file", "table", "message"),
    [
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": {"7": {"content": "<asr_text>"}}},
            r"tokenizer\.json and tokenizer_config\.json .*<asr_text>=\d+, .*<asr_text>=7;",
        ),
        (
            "config.json",
            {"thinker_config": {"audio_start_token_id": 7}},
            r"json and config\.json .*<\|audio_start\|>=\d+, .*audio_start_token_id=7;",
        ),
        (
            "config.json",
            {"audio_end_token_id": 7},
            r"json and config\.json .*<\|audio_end\|>=\d+, .*audio_end_token_id=7;",
        ),
    ],
    ids=["tokenizer_config.json", "original config.json", "config.json of transformers"],
)
def test_a_tokenizer_with_other_ids_than_its_neighbours_is_refused(
    tiny, tmp_path, file, table, message
):
    """It belongs to another model, whose ids stand for other text."""
    tiny.write_tokenizer(tmp_path)
    (tmp_path / file).write_text(json.dumps(table), encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match=message):
        Vocabulary.read(tmp_path)
