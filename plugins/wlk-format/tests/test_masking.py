from __future__ import annotations

import pytest
from spoken import MASKS, formatted, lines


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
    ],
)
def test_numbers_are_masked_only_if_asked(text, masked):
    """A number has three digits or more."""
    assert formatted(text, masks=frozenset({"number"})) == masked
    assert formatted(text, masks=MASKS, has_numbers=False) == text


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
