"""The vocabulary of a checkpoint: read whole, or told to be damaged in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from wlk_core import ModelNotFoundError
import wlk_whisper
from wlk_whisper.tokenizer_file import read_tokenizer

DIGITS = Path(wlk_whisper.__file__).parent / "digits" / "ctranslate2" / "tokenizer.json"


def test_a_tokenizer_is_read_whole():
    """Text becomes ids and text again, and the special tokens have theirs."""
    vocabulary = read_tokenizer(DIGITS)
    ids = vocabulary.encode(" one, zwei, 三", add_special_tokens=False).ids

    assert " one, zwei, 三" == vocabulary.decode(ids)
    assert 50258 == vocabulary.token_to_id("<|startoftranscript|>")


@pytest.mark.parametrize(
    "damaged",
    [b"", b"{", b"[]", b"{}", b'{"model": {}}', b"\xff\xfe", DIGITS.read_bytes()[:100_000]],
    ids=["empty", "open", "a list", "nothing", "no model", "no text", "cut off"],
)
def test_a_damaged_tokenizer_is_named_with_what_helps(tmp_path, damaged):
    """A download that was cut off is none, and neither is JSON of another kind."""
    path = tmp_path / "tokenizer.json"
    path.write_bytes(damaged)

    with pytest.raises(
        ModelNotFoundError, match=r"tokenizer\.json cannot be read.*copy the tok"
    ) as (caught):
        read_tokenizer(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_tokenizer_that_is_not_there_is_named(tmp_path):
    """A model cannot be told anything without one."""
    with pytest.raises(ModelNotFoundError, match=r"absent\.json cannot be read"):
        read_tokenizer(tmp_path / "absent.json")
