"""The help text of max_context_tokens agrees with Whisper's vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest

import wlk_whisper
from wlk_whisper.engine.model_files import read_tokenizer
from wlk_whisper.plugin import MAX_CONTEXT_TOKENS

CHARACTERS = 200  # of earlier text that the core passes on
ENGLISH = (
    "The quick brown fox jumped over the lazy dog, and then it ran away from the farmer, who had "
    "been chasing it across the fields for a very long time. No one ever found out what it was "
    "searching for over there, but it never came back."
)
BURMESE = "မနေ့က ရာသီဥတုကောင်းလို့ သူငယ်ချင်းနဲ့ ပန်းခြံသွားတယ်။ " * 4


@pytest.fixture(scope="module")
def hf_tokenizer():
    """Return the multilingual tokenizer."""
    return read_tokenizer(Path(wlk_whisper.__file__).parent / "digits/ctranslate2/tokenizer.json")


def count_tokens(hf_tokenizer, text):
    """Return the tokens of the longest earlier text that the core passes on."""
    assert len(text) >= CHARACTERS
    return len(hf_tokenizer.encode(text[-CHARACTERS:], add_special_tokens=False).ids)


def test_characters_are_the_limit_in_english_and_tokens_in_other_scripts(hf_tokenizer):
    """Therefore the help text names both limits."""
    option = MAX_CONTEXT_TOKENS

    assert 40 <= count_tokens(hf_tokenizer, ENGLISH) <= 50
    assert count_tokens(hf_tokenizer, BURMESE) > option.maximum
    assert option.maximum == 448 // 2 - 1
    assert f"{CHARACTERS} characters" in option.help
    assert "above 50 change nothing in English" in option.help
