"""Tables of a terminal."""

from __future__ import annotations

from wlk_core.cli.tables import table


def test_tables_drop_empty_columns_and_wrap_the_last(monkeypatch):
    """An empty column takes no room; a long last cell stays in its column."""
    monkeypatch.setenv("COLUMNS", "30")

    assert table([("a", "", "b"), ("cc", "", "word " * 8)]) == (
        "a   b\ncc  word word word word word\n    word word word"
    )


def test_an_empty_table_is_empty():
    """No rows, no text."""
    assert table([]) == ""
