"""
Print how large each distribution is, and fail if wlk-core has outgrown its ceiling.

    python tools/sizes.py

A line is a line of a .py or .pyi file: code, docstrings, comments and blank lines.  wlk-core alone
has a ceiling, because it is what the author of a backend has to know; its JSON counts too.
"""

from __future__ import annotations

from pathlib import Path
import sys

ROOT = Path(__file__).resolve().parents[1]
MAX_CORE_LINES = 5_500  # under core/src
PYTHON = (".py", ".pyi")
OTHER_FOLDERS = ("benchmarks", "deploy", "docs", "examples", "tests", "tools", "noxfile.py")


def main() -> int:
    """Print a row for each distribution and folder, and return the exit status."""
    distributions = [*ROOT.glob("*/pyproject.toml"), *ROOT.glob("plugins/*/pyproject.toml")]
    folders = sorted(path.parent for path in distributions)
    print(f"{'':26} {'files':>6} {'source':>8} {'tests':>8}")
    all_files = all_source = all_tests = 0
    for folder in [*folders, *(ROOT / name for name in OTHER_FOLDERS)]:
        files = files_in(folder, PYTHON)
        source = lines_of([path for path in files if not is_test(path)])
        tests = lines_of([path for path in files if is_test(path)])
        name = folder.relative_to(ROOT).as_posix()
        print(f"{name:26} {len(files):6,} {source:8,} {tests:8,}")
        all_files += len(files)
        all_source += source
        all_tests += tests
    print(f"{'all':26} {all_files:6,} {all_source:8,} {all_tests:8,}")

    core_lines = lines_of(files_in(ROOT / "core/src", (*PYTHON, ".json")))
    print(f"core/src with JSON: {core_lines:,} of at most {MAX_CORE_LINES:,} lines")
    if core_lines > MAX_CORE_LINES:
        print("wlk-core is too large: remove something, or move it to another distribution")
        return 1
    return 0


def files_in(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files of a folder and all folders in it, or the file that *folder* is."""
    paths = folder.rglob("*") if folder.is_dir() else [folder]
    return [path for path in paths if path.suffix in suffixes]


def is_test(path: Path) -> bool:
    """Return whether a file is in a folder of tests."""
    return "tests" in path.relative_to(ROOT).parts


def lines_of(files: list[Path]) -> int:
    """Return the number of lines of all files together."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


if __name__ == "__main__":
    sys.exit(main())
