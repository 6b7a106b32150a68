from __future__ import annotations

from accents import ACCENTS, FESTIVAL_LANGUAGES, OTHER_SPELLINGS, PICO_LANGUAGES
import pytest
from synthesis import Speaker, render
from vocabulary import DIGITS
from voices import ESPEAK, FESTIVAL, FOREIGN, PICO, training_speakers


def test_no_two_synthetic_speakers_are_the_same() -> None:
    """Voices are kept by the names of their speakers."""
    names = [speaker.name for speaker in training_speakers()]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("language", ACCENTS)
def test_an_accent_spells_all_ten_digits(language: str) -> None:
    """A word too few would shift all that follow it."""
    spellings = [table[language] for table in (ACCENTS, OTHER_SPELLINGS) if language in table]

    assert all(len(spelling.split()) == len(DIGITS) for spelling in spellings)


def test_foreigners_read_their_own_spelling_and_natives_the_english_one() -> None:
    """The spelling makes the accent."""
    assert {speaker.words for speaker in ESPEAK} == {DIGITS}
    assert len({speaker.words for speaker in FOREIGN}) > len(ACCENTS) / 2
    assert all(isinstance(speaker, Speaker) and speaker.words != DIGITS for speaker in FOREIGN)


def test_a_voice_of_festival_reads_every_spelling_of_its_language() -> None:
    """Italians read Italian, twice over; an American reads English."""
    words: dict[str, set[tuple[str, ...]]] = {voice: set() for voice in FESTIVAL_LANGUAGES}
    for speaker in FESTIVAL:
        words[speaker.voice].add(speaker.words)

    assert words["kal_diphone"] == {DIGITS}
    assert words["lp_diphone"] == {
        tuple(table["it"].split()) for table in (ACCENTS, OTHER_SPELLINGS)
    }


def test_a_voice_of_pico_reads_its_own_language() -> None:
    """Both English ones read English, the others what their languages would write."""
    words = {(speaker.voice, speaker.words) for speaker in PICO}

    for voice, language in PICO_LANGUAGES.items():
        spellings = [table.get(language, "") for table in (ACCENTS, OTHER_SPELLINGS)]
        expected = {DIGITS} if language == "en" else {tuple(line.split()) for line in spellings}
        assert {text for name, text in words if name == voice} == expected


def test_a_six_of_pico_keeps_both_its_hisses() -> None:
    """Its consonants are faint: without emphasis they would be trimmed off as silence."""
    pytest.importorskip("ttspico", reason="needs what tools/digits/requirements.txt lists")
    french = next(speaker for speaker in PICO if speaker.voice == "fr-FR")

    vowel, whole = (render(french, word) for word in ("i", "siksse"))

    assert len(whole) > 2 * len(vowel)
