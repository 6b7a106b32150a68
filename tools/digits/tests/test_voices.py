from __future__ import annotations

from accents import ACCENTS, OTHER_SPELLINGS
import pytest
from synthesis import render
from vocabulary import DIGITS
from voices import PICO, training_speakers


def test_no_two_synthetic_speakers_are_the_same() -> None:
    """Voices are kept by the names of their speakers."""
    names = [speaker.name for speaker in training_speakers()]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("language", ACCENTS)
def test_an_accent_spells_all_ten_digits(language: str) -> None:
    """A word too few would shift all that follow it."""
    spellings = [table[language] for table in (ACCENTS, OTHER_SPELLINGS) if language in table]

    assert all(len(spelling.split()) == len(DIGITS) for spelling in spellings)


def test_a_six_of_pico_keeps_both_its_hisses() -> None:
    """Its consonants are faint: without emphasis they would be trimmed off as silence."""
    pytest.importorskip("ttspico", reason="needs what tools/digits/requirements.txt lists")
    french = next(speaker for speaker in PICO if speaker.voice == "fr-FR")

    vowel, whole = (render(french, word) for word in ("i", "siksse"))

    assert len(whole) > 2 * len(vowel)
