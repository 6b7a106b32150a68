"""
The configuration of a user: config.toml, WLK_* variables and flags, in this order.

Only command lines read it; `load_backend` and the rest of the API take explicit arguments.
"""

from __future__ import annotations

from wlk_core.config.file import ConfigFile, config_path, read_config, set_value, unset_value
from wlk_core.config.settings import OPTION_VARIABLE, Settings, check_config, choose_settings

__all__ = [
    "OPTION_VARIABLE",
    "ConfigFile",
    "Settings",
    "check_config",
    "choose_settings",
    "config_path",
    "read_config",
    "set_value",
    "unset_value",
]
