from __future__ import annotations

import pytest
from spoken import MASKS, formatted, lines

from wlk_format.engine import masking


def test_profanity_addresses_cards_and_telephones_are_masked():
    """Each of a hundred sentences is masked as its line says."""
    expected = {(language, text): masked for language, text, masked in lines("masked.txt")}

    assert len(expected) == 100
    assert expected == {
        (language, text): formatted(text, language, masks=MASKS, has_numbers=False)
        for language, text in expected
    }


def test_a_hundred_harmless_sentences_are_not_masked():
    """Names, dates, prices, orders and counting are not private."""
    texts = lines("harmless.txt")

    assert len(texts) == 100
    assert texts == [
        [language, formatted(text, language, masks=MASKS, has_numbers=False)]
        for language, text in texts
    ]


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("In 2024 we sold 25 of them.", "In [number] we sold 25 of them."),
        ("The code is four one one one.", "The code is [number]."),
        ("It took two hundred days, or five.", "It took [number] days, or five."),
        ("The code is four one one double or nothing.", "The code is [number] double or nothing."),
    ],
)
def test_numbers_are_masked_only_if_asked(text, masked):
    """A number has three digits or more."""
    assert formatted(text, masks=frozenset({"number"})) == masked
    assert formatted(text, masks=MASKS, has_numbers=False) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("It's 4111 1111 1111 1111 double the amount.", "It's [card] double the amount."),
        ("It's 4111 1111 1111 1111 double 5.", "It's [card] double 5."),
        (
            "Call two one two seven three six five zero zero one plus him.",
            "Call [phone] plus him.",
        ),
    ],
)
def test_double_and_plus_belong_to_the_digits_after_them(text, masked):
    """Without such digits they are words of the sentence."""
    assert formatted(text, masks=MASKS, has_numbers=False) == masked


@pytest.mark.parametrize(
    ("language", "text", "masked"),
    [
        ("fr", "En 2024 un homme est venu.", "En [number] un homme est venu."),
        ("fr", "Le code est quatre trois deux un.", "Le code est [number]."),
        ("fr", "Le code est un deux trois quatre.", "Le code est [number]."),
        ("de", "Es kostet 1500 ein Jahr.", "Es kostet [number] ein Jahr."),
        ("de", "Er hat ein 2008 gebautes Haus.", "Er hat ein [number] gebautes Haus."),
        ("es", "En 2024 una mujer vino.", "En [number] una mujer vino."),
    ],
)
def test_an_article_beside_written_digits_is_not_a_digit(language, text, masked):
    """Among digits that are spelled out, it is one."""
    assert formatted(text, language, masks=frozenset({"number"}), has_numbers=False) == masked


def test_the_readings_of_numerals_do_not_double_with_each_pair(monkeypatch):
    """Each is 21 or 201, but most of the thousands of readings are longer than any number."""
    readings = []
    is_tens = masking._is_tens
    monkeypatch.setattr(masking, "_is_tens", lambda *args: readings.append(args) or is_tens(*args))

    text = ", ".join(["twenty one"] * 12)

    assert formatted(text, masks=frozenset({"card"}), has_numbers=False) == text
    assert len(readings) < 12_000


def test_a_region_names_the_country_of_telephone_numbers():
    """Without its country code, a number is one of the region."""
    text = "Call 020 7946 0958 now."

    assert formatted(text, masks=MASKS) == text
    assert formatted(text, masks=MASKS, region="GB") == "Call [phone] now."


def test_numbers_in_digits_are_masked_in_every_language():
    """A card in digits needs no numerals."""
    masks = frozenset({"card", "phone"})

    assert formatted("Karta 4111 1111 1111 1111.", "pl", masks=masks) == "Karta [card]."
    assert formatted("Tel. +48 22 694 55 55.", "pl", masks=masks) == "Tel. [phone]."


def test_a_mask_goes_before_a_replacement():
    """What is private is masked even if the glossary knows a word of it."""
    entries = {"example": "Example Inc."}

    assert formatted("Mail jo at example dot com.", masks=MASKS, entries=entries) == "Mail [email]."
