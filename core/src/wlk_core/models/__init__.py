"""
Models: a reference becomes a directory of model files in the Hugging Face cache.

Importing this package brings neither the hub's library nor numpy.
"""

from __future__ import annotations

from wlk_core.models import json_kinds
from wlk_core.models.hub_cache import cache_directory, offline_mode
from wlk_core.models.json_limits import SETTINGS_LIMITS, VOCABULARY_LIMITS
from wlk_core.models.json_table import read_json, read_json_bytes, read_json_table, read_limited
from wlk_core.models.listing import Model, damaged_files, describe_model, list_models
from wlk_core.models.lookup import locate, pull
from wlk_core.models.removal import Removal, plan_removal
from wlk_core.models.safetensors_header import (
    TensorHeader,
    read_safetensors_header,
    read_safetensors_headers,
    shard_names,
    weight_names,
)
from wlk_core.models.weight_sizes import LayerCount, TensorSize, check_sizes

__all__ = [
    "SETTINGS_LIMITS",
    "VOCABULARY_LIMITS",
    "LayerCount",
    "Model",
    "Removal",
    "TensorHeader",
    "TensorSize",
    "cache_directory",
    "check_sizes",
    "damaged_files",
    "describe_model",
    "json_kinds",
    "list_models",
    "locate",
    "offline_mode",
    "plan_removal",
    "pull",
    "read_json",
    "read_json_bytes",
    "read_json_table",
    "read_limited",
    "read_safetensors_header",
    "read_safetensors_headers",
    "shard_names",
    "weight_names",
]
