"""The languages of Whisper as endpoints write them."""

from __future__ import annotations

from wlk_whisper.language_names import iso_639_1, language_code
from wlk_whisper.languages import LANGUAGES


def test_every_language_is_known_by_what_the_api_calls_it():
    """The code of ISO 639-1 has two letters, is no other language's, and leads back."""
    codes = {code: iso_639_1(code) for code in LANGUAGES}
    known = [code for code in codes.values() if code is not None]

    assert {"haw", "yue"} == {code for code, iso in codes.items() if iso is None}
    assert {2} == set(map(len, known))
    assert len(set(known)) == len(known)
    assert all(language_code(iso) == code for code, iso in codes.items() if iso is not None)


def test_javanese_is_written_as_the_standard_has_it():
    """Whisper's own code for it is none of ISO 639-1."""
    assert "jv" == iso_639_1("jw")
