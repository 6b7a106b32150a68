"""Each of the thirty languages has one code and one name."""

from __future__ import annotations

from wlk_qwen3_simul.languages import LANGUAGES, code_of


def test_there_are_thirty_languages_and_every_name_has_one_code():
    """The names are those of the model card."""
    assert 30 == len(LANGUAGES) == len(set(LANGUAGES.values()))
    assert all(code == code_of(name) for code, name in LANGUAGES.items())
    assert "fil" == code_of(" filipino ")
    assert code_of("None") is None
