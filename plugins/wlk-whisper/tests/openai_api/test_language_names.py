"""The names and codes that endpoints use for Whisper's languages."""

from __future__ import annotations

from wlk_whisper.languages import LANGUAGES
from wlk_whisper.openai_api.language_names import iso_639_1, language_code


def test_every_iso_639_1_code_leads_back_to_its_language():
    """An ISO 639-1 code has two letters and belongs to one language."""
    codes = {code: iso_639_1(code) for code in LANGUAGES}
    standard = [code for code in codes.values() if code is not None]

    assert {"haw", "yue"} == {code for code, iso in codes.items() if iso is None}
    assert {2} == set(map(len, standard))
    assert len(set(standard)) == len(standard)
    assert all(language_code(iso) == code for code, iso in codes.items() if iso is not None)


def test_javanese_has_the_code_of_the_standard():
    """Whisper's own code for Javanese is not in ISO 639-1."""
    assert "jv" == iso_639_1("jw")
