from __future__ import annotations

import pytest
from spoken import formatted, lines

ORDINARY = [(language, text) for language, text in lines("ordinary.txt")]


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
def test_numbers_dates_money_and_times_are_written(language):
    """Each sentence is written as its line says, and no other word of it changes."""
    expected = {text: written for code, text, written in lines("numbers.txt") if code == language}

    assert len(expected) >= 10
    assert expected == {text: formatted(text, language) for text in expected}


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
def test_sentences_without_numbers_stay_as_they_are(language):
    """Idioms, articles and digits of the recognizer are left alone, in the wrong language too."""
    texts = [text for _, text in ORDINARY]

    assert len(texts) >= 60
    assert texts == [formatted(text, language) for text in texts]


@pytest.mark.parametrize("language", ["it", "ja", ""])
def test_a_language_without_grammar_is_left_alone(language):
    """Numbers of languages that are not known stay words."""
    assert formatted("Ventun euro, twenty five.", language) == "Ventun euro, twenty five."


def test_a_script_without_spaces_is_left_alone():
    """Text without spaces is one word, which is not a number."""
    assert formatted("二十五人が来た。", "en") == "二十五人が来た。"


def test_the_capital_and_the_stop_of_a_sentence_stay():
    """Punctuation around a number belongs to the sentence."""
    assert formatted('"Twenty five!" (Half past seven.)') == '"25!" (7:30.)'


def test_the_points_of_an_abbreviation_stay():
    """Only a time changes them."""
    assert formatted("Twenty or a.m. and five thirty p.m. of twenty.") == (
        "20 or a.m. and 5:30 p.m. of 20."
    )


def test_a_number_can_be_spelled_with_capitals_or_a_curved_apostrophe():
    """The recognizer's typography makes no difference."""
    text = "TWENTY-FIVE PEOPLE at five o’clock"  # noqa: RUF001 -- what models write

    assert formatted(text) == "25 PEOPLE at 5 o'clock"
