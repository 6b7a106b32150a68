"""What the option max_context_tokens says of itself is true of Whisper's vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest

import wlk_whisper
from wlk_whisper.specs.common import ALIGNATT
from wlk_whisper.tokenizer_file import read_tokenizer

CHARACTERS = 200  # of earlier text that the core passes on
ENGLISH = (
    "The quick brown fox jumped over the lazy dog, and then it ran away from the farmer, who had "
    "been chasing it across the fields for a very long time. Nobody knows what it was that it was "
    "looking for over there, but it never came back."
)
BURMESE = "မနေ့က ရာသီဥတုကောင်းလို့ သူငယ်ချင်းနဲ့ ပန်းခြံသွားတယ်။ " * 4


@pytest.fixture(scope="module")
def vocabulary():
    """Return the multilingual vocabulary."""
    return read_tokenizer(Path(wlk_whisper.__file__).parent / "digits/ctranslate2/tokenizer.json")


def tokens(vocabulary, text):
    """Return how many tokens the most text is that the core passes on."""
    assert len(text) >= CHARACTERS
    return len(vocabulary.encode(text[-CHARACTERS:], add_special_tokens=False).ids)


def test_the_bound_of_characters_comes_first_in_english_and_that_of_tokens_elsewhere(vocabulary):
    """So the help says both."""
    option = next(option for option in ALIGNATT if option.name == "max_context_tokens")

    assert 40 <= tokens(vocabulary, ENGLISH) <= 50
    assert tokens(vocabulary, BURMESE) > option.maximum
    assert option.maximum == 448 // 2 - 1
    assert f"{CHARACTERS} characters" in option.help
    assert "above 50 change nothing in English" in option.help
