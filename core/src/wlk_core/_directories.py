"""Where wlk-core keeps files of its own: configuration and records of pulled models."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

__all__ = ["config_directory", "data_directory", "expanded"]

APPLICATION = "wlk-core"


def config_directory() -> Path:
    """Return the directory of config.toml: $WLK_HOME, else the user's configuration directory."""
    if home := os.environ.get("WLK_HOME"):
        return expanded(home)
    return platformdirs.user_config_path(APPLICATION, appauthor=False)


def data_directory() -> Path:
    """Return the directory of pull records: $WLK_HOME, else the user's data directory."""
    if home := os.environ.get("WLK_HOME"):
        return expanded(home)
    return platformdirs.user_data_path(APPLICATION, appauthor=False)


def expanded(path: str | os.PathLike[str]) -> Path:
    """
    Return *path* as an absolute path, with ``~`` and variables replaced.

    A home directory that does not exist stays as it is written, as the hub's library leaves it.
    """
    return Path(os.path.abspath(os.path.expandvars(os.path.expanduser(path))))  # noqa: PTH100, PTH111
