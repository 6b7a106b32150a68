from __future__ import annotations

from accents import ACCENTS
import pytest
from vocabulary import DIGITS
from voices import ESPEAK, FOREIGN, Speaker, training_speakers


def test_no_two_synthetic_speakers_are_the_same() -> None:
    """Voices are kept by the names of their speakers."""
    names = [speaker.name for speaker in training_speakers()]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("language", ACCENTS)
def test_an_accent_spells_all_ten_digits(language: str) -> None:
    """A word too few would shift all that follow it."""
    assert len(ACCENTS[language].split()) == len(DIGITS)


def test_foreigners_read_their_own_spelling_and_natives_the_english_one() -> None:
    """The spelling makes the accent."""
    assert {speaker.words for speaker in ESPEAK} == {DIGITS}
    assert len({speaker.words for speaker in FOREIGN}) > len(ACCENTS) / 2
    assert all(isinstance(speaker, Speaker) and speaker.words != DIGITS for speaker in FOREIGN)
