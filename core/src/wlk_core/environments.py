"""Other environments of this machine: their Python, and the variables of a process there."""

from __future__ import annotations

import os
from pathlib import Path

from wlk_core.errors import OptionError

__all__ = ["environment_elsewhere", "find_pythons"]

# What would lead a process back to the packages or the settings of this one.
_PACKAGES = ("PYTHONHOME", "PYTHONPATH", "__PYVENV_LAUNCHER__")
_SETTINGS = ("WLK_BACKEND", "WLK_MODEL", "WLK_LANGUAGE", "WLK_OPTION_")


def find_pythons(text: str) -> list[Path]:
    """
    Return the Pythons that *text* names, separated by commas.

    Each is a program or the folder of a virtual environment.  Links are not resolved, because the
    Python of an environment is a link.

    Raises:
        OptionError: one of them is neither.

    """
    return [_find(part.strip()) for part in text.split(",")]


def environment_elsewhere() -> dict[str, str]:
    """Return the variables of this process without those that choose its packages or settings."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in _PACKAGES and not name.startswith(_SETTINGS)
    }


def _find(text: str) -> Path:
    path = Path(text).expanduser()
    candidates = [path]
    if text and path.is_dir():
        candidates = [path / "bin" / "python", path / "Scripts" / "python.exe"]
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate.absolute()
    raise OptionError(
        "expected option python as the Python of another environment, such as "
        f"/path/to/venv/bin/python, or the folder of a virtual environment; got {text!r}"
    )
