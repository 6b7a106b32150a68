"""The page on other servers has every answer of the command line, in the same words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import wlk_live

PAGE = (Path(__file__).resolve().parents[1] / "migrate.md").read_text(encoding="utf-8")
TABLES = json.loads(
    Path(wlk_live.__file__).with_name("whisperlivekit.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("kind", ["flags", "backends"])
def test_every_answer_is_a_row_of_the_page(kind):
    """The rows are in the order of the table, without others between them."""
    rows = [
        f"| {', '.join(f'`{name}`' for name in names.split())} | {answer} |"
        for names, answer in TABLES[kind].items()
    ]

    assert "\n".join(rows) in PAGE
