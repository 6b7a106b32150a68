"""
Models: a reference becomes a directory of model files in the Hugging Face cache.

Importing this package brings neither the hub's library nor numpy.
"""

from __future__ import annotations

from wlk_core.models.hub_cache import cache_directory, offline_mode
from wlk_core.models.json_table import read_json_table
from wlk_core.models.listing import Model, damaged_files, describe_model, list_models
from wlk_core.models.lookup import locate, pull
from wlk_core.models.removal import Removal, plan_removal

__all__ = [
    "Model",
    "Removal",
    "cache_directory",
    "damaged_files",
    "describe_model",
    "list_models",
    "locate",
    "offline_mode",
    "plan_removal",
    "pull",
    "read_json_table",
]
