"""Where wlk-core keeps files of its own: configuration, records of pulled models, locks."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

__all__ = ["config_directory", "data_directory", "expanded", "lock_directory"]

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


def lock_directory() -> Path:
    """
    Return the directory of lock files: in $WLK_HOME, else in the user's state directory.

    The runtime directory would be its place, but servers and containers often have none, and
    platformdirs warns on standard error then.
    """
    if home := os.environ.get("WLK_HOME"):
        return expanded(home) / "locks"
    return platformdirs.user_state_path(APPLICATION, appauthor=False) / "locks"


def expanded(path: str | os.PathLike[str]) -> Path:
    """
    Return *path* as an absolute path, with ``~`` and variables replaced.

    A home directory that does not exist stays as it is written, as the hub's library leaves it.
    """
    return Path(os.path.abspath(os.path.expandvars(os.path.expanduser(path))))  # noqa: PTH100, PTH111
