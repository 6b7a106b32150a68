"""docs/options.md is what the installed specs declare."""

from __future__ import annotations

from pathlib import Path
import runpy

ROOT = Path(__file__).resolve().parents[1]


def test_the_page_of_options_is_current():
    """Run `python tools/options_page.py` after a change of a spec."""
    script = runpy.run_path(str(ROOT / "tools" / "options_page.py"))

    assert script["page"]() == (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
