"""The tokenizer.json of a checkpoint: read completely, or reported as damaged in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wlk_core import ModelNotFoundError
import wlk_whisper
from wlk_whisper.engine.model_files import read_tokenizer

DIGITS = Path(wlk_whisper.__file__).parent / "digits" / "ctranslate2"


def test_a_tokenizer_is_read_completely():
    """Text becomes ids and text again, and the special tokens have their ids."""
    hf_tokenizer = read_tokenizer(DIGITS, n_vocab=51_865)
    ids = hf_tokenizer.encode(" one, zwei, 三", add_special_tokens=False).ids

    assert " one, zwei, 三" == hf_tokenizer.decode(ids)
    assert 50258 == hf_tokenizer.token_to_id("<|startoftranscript|>")


@pytest.mark.parametrize(
    "damaged",
    [b"", b"[]", b"{}", b"\xff\xfe", (DIGITS / "tokenizer.json").read_bytes()[:100_000]],
    ids=["empty", "a list", "nothing", "no text", "cut off"],
)
def test_a_damaged_tokenizer_is_named_with_a_remedy(tmp_path, damaged):
    """A download that was cut off is an error, and so is JSON of another kind."""
    path = tmp_path / "tokenizer.json"
    path.write_bytes(damaged)

    with pytest.raises(
        ModelNotFoundError,
        match=r"tokenizer\.json is (damaged|invalid|not a tokenizer): .*copy",
    ) as caught:
        read_tokenizer(tmp_path, n_vocab=51_865)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_tokenizer_is_named(tmp_path):
    """The error names the path of the missing file."""
    with pytest.raises(ModelNotFoundError, match=r"tokenizer\.json is missing"):
        read_tokenizer(tmp_path, n_vocab=51_865)


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    """Decoding would fail in its first step."""
    content = json.dumps({"model": {"type": "WordLevel", "vocab": {"one": 0}, "unk_token": "one"}})
    (tmp_path / "tokenizer.json").write_text(content, encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match="and it has no such token"):
        read_tokenizer(tmp_path, n_vocab=51_865)
    with pytest.raises(ModelNotFoundError, match="and it has it as 50258 of 50000 rows"):
        read_tokenizer(DIGITS, n_vocab=50_000)
