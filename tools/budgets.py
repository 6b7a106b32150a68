"""
Check the number of lines of each distribution against the budgets in pyproject.toml.

    python tools/budgets.py

Every line of .py and .pyi files counts: code, docstrings, comments and blank lines.  Raising a
budget requires a sentence in docs/decisions.md that says what users get for the lines.
"""

from __future__ import annotations

from pathlib import Path
import sys
import tomllib

ROOT = Path(__file__).resolve().parents[1]


def files_of(*patterns: str) -> set[Path]:
    """Return the Python files that match *patterns* or that are in folders that match."""
    matches = [path for pattern in patterns for path in ROOT.glob(pattern)]
    inside = (path.rglob("*.py*") if path.is_dir() else [path] for path in matches)
    return {file for files in inside for file in files if file.suffix in {".py", ".pyi"}}


def lines_in(files: set[Path], *, tests: bool) -> int:
    """Return the number of lines of *files*, counting either tests or everything else."""
    return sum(
        len(path.read_text(encoding="utf-8").splitlines())
        for path in files
        if tests == ("tests" in path.relative_to(ROOT).parts)
    )


def main() -> int:
    """Print a line for each budget and return 1 if any is exceeded."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    is_exceeded = False
    for name, budget in settings["tool"]["wlk"]["budgets"].items():
        files = files_of(*budget["folders"]) - files_of(*budget.get("without", ()))
        lines = lines_in(files, tests=budget.get("tests", False))
        is_exceeded |= lines > budget["lines"]
        note = "  too many: remove some, see CONTRIBUTING.md" if lines > budget["lines"] else ""
        print(f"{name:20} {lines:7,} of {budget['lines']:7,} lines{note}")
    return int(is_exceeded)


if __name__ == "__main__":
    sys.exit(main())
