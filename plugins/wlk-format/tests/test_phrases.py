from __future__ import annotations

import pytest
from spoken import formatted

from wlk_core.plugins import OptionError
from wlk_format.engine.phrases import parse_entries, read_entries

ENTRIES = parse_entries(
    "sequel = SQL; OpenStreetMap; New York=NY; New York City=NYC; Airbus; e mail=email",
    owner="format",
)


@pytest.mark.parametrize(
    ("spoken", "written"),
    [
        ("We use sequel.", "We use SQL."),
        ("the sequels of a Sequel", "the sequels of a SQL"),
        ("on open street map, and Open-Street-Map", "on OpenStreetMap, and OpenStreetMap"),
        ("New York City is in new york!", "NYC is in NY!"),
        ("New Yorkers, not New, York", "New Yorkers, not New, York"),
        ("the airbus's wings (AIRBUS)", "the Airbus's wings (Airbus)"),
        ("E mail them.", "Email them."),
        ("l'airbus", "l'Airbus"),
    ],
)
def test_phrases_are_replaced_as_whole_words(spoken, written):
    """The longest phrase is replaced in any case; punctuation, l' and 's stay."""
    assert formatted(spoken, "pl", entries=ENTRIES) == written


def test_a_replacement_goes_before_numbers():
    """A user's spelling of a number is not formatted."""
    entries = {"forty two": "Forty-Two Ltd"}

    assert formatted("Forty two has forty three shops.", entries=entries) == (
        "Forty-Two Ltd has 43 shops."
    )


def test_a_file_has_an_entry_on_each_line(tmp_path):
    """Comments and blank lines are left out."""
    path = tmp_path / "names.txt"
    path.write_text("# our names\n\nsequel=SQL\nAirbus; Lufthansa\n", encoding="utf-8")

    assert read_entries(path, owner="format") == {
        "sequel": "SQL",
        "Airbus": "Airbus",
        "Lufthansa": "Lufthansa",
    }


@pytest.mark.parametrize("entry", ["um=", "=SQL", "...", "a=b\x1b[0m"])
def test_an_entry_needs_two_sides(entry):
    """Words cannot be removed, and text that is not printable is refused."""
    with pytest.raises(OptionError, match=r"expected \"spoken=written\" or a name"):
        parse_entries(entry, owner="format")


def test_a_glossary_that_is_not_text_is_refused(tmp_path):
    """The error names the file."""
    (tmp_path / "names.bin").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(OptionError, match=r"expected a text file in UTF-8: .*names\.bin"):
        read_entries(tmp_path / "names.bin", owner="format")
    with pytest.raises(OptionError, match=r"expected a text file in UTF-8: .*missing"):
        read_entries(tmp_path / "missing", owner="format")
