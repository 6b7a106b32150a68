"""
The configuration of a user: config.toml, WLK_* variables and flags, in this order.

Only command lines read it; `load_backend` and the rest of the API take explicit arguments.
"""

from __future__ import annotations

from wlk_core.config.edit import set_value, unset_value
from wlk_core.config.file import OPTIONS, TEXT_KEYS, ConfigFile, config_path, read_config
from wlk_core.config.settings import (
    OPTION_VARIABLE,
    VARIABLES,
    Setting,
    Settings,
    check_config,
    choose_settings,
)

__all__ = [
    "OPTIONS",
    "OPTION_VARIABLE",
    "TEXT_KEYS",
    "VARIABLES",
    "ConfigFile",
    "Setting",
    "Settings",
    "check_config",
    "choose_settings",
    "config_path",
    "read_config",
    "set_value",
    "unset_value",
]
