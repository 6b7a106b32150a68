"""Tables, warnings, and the escaping of terminal control characters."""

from __future__ import annotations

import logging

import click
from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_core.cli.main import main, registry_of
from wlk_core.cli.terminal import table
from wlk_core.untrusted import ACTIVE, plain, printable

EVIL = "\x1b[31mred\x07\x9b2J\u202etxt\u2028\x00"


@given(st.text())
def test_nothing_active_is_left_and_all_else_stays(text):
    """All scripts are shown unchanged, including joiners and wide spaces."""
    assert not ACTIVE.search(printable(text))
    assert not ACTIVE.search(plain(text))
    if not ACTIVE.search(text):
        assert printable(text) == plain(text) == text


@pytest.mark.parametrize(
    "text", ["a\u200db", "\u0645\u06cc\u200c\u062e", "東京\u3000駅", "a\u00a0b", "👩\u200d🔬"]
)
def test_text_of_people_is_not_escaped(text):
    """Joiners and wide or non-breaking spaces are part of written language."""
    assert plain(text) == text


def test_tables_drop_empty_columns_and_wrap_the_last(monkeypatch):
    """An empty column is dropped; a long last cell wraps within its column."""
    monkeypatch.setenv("COLUMNS", "30")

    assert not ACTIVE.search(table([(EVIL, "a\nb")]))
    assert table([]) == ""
    assert table([("a", "", "b"), ("cc", "", "word " * 8)]) == (
        "a   b\ncc  word word word word word\n    word word word"
    )


def test_warnings_of_this_project_are_printed_and_those_of_libraries_are_not(monkeypatch, capsys):
    """Only warnings of wlk packages are printed, with control characters escaped."""
    monkeypatch.setattr(logging.root, "handlers", [])
    registry_of(click.Context(main, info_name="wlk-toy"))
    for name in ("wlk_toy", "other"):
        logging.getLogger(name).warning("%s", EVIL)

    assert capsys.readouterr().err == f"wlk-toy: {printable(EVIL)}\n"
