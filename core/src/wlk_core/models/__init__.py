"""
Models: a reference becomes a directory of model files in the Hugging Face cache.

Downloads, the cache, its locks and checksums are huggingface_hub's, which is imported only for a
model of the hub, because it takes half a second.
"""

from __future__ import annotations

from wlk_core.models.json_files import Index, Size, read_json, read_json_table, read_limited
from wlk_core.models.lookup import (
    CachedRepo,
    Model,
    cache_directory,
    cached_repo,
    describe_model,
    list_models,
    locate,
    offline_mode,
    pull,
)
from wlk_core.models.weights import (
    LayerCount,
    TensorHeader,
    TensorSize,
    check_sizes,
    read_safetensors_header,
    read_safetensors_headers,
    shard_names,
    weight_names,
)

__all__ = [
    "CachedRepo",
    "Index",
    "LayerCount",
    "Model",
    "Size",
    "TensorHeader",
    "TensorSize",
    "cache_directory",
    "cached_repo",
    "check_sizes",
    "describe_model",
    "list_models",
    "locate",
    "offline_mode",
    "pull",
    "read_json",
    "read_json_table",
    "read_limited",
    "read_safetensors_header",
    "read_safetensors_headers",
    "shard_names",
    "weight_names",
]
