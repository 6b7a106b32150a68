"""
Turn a reference to a model into a directory of model files, and read those files.

Downloads, the cache, its locks and checksums are left to huggingface_hub.  It is imported only for
models of the hub, because its import takes half a second.
"""

from __future__ import annotations

from wlk_core.models.files import Index as Index
from wlk_core.models.files import LayerCount as LayerCount
from wlk_core.models.files import Size as Size
from wlk_core.models.files import TensorHeader as TensorHeader
from wlk_core.models.files import TensorSize as TensorSize
from wlk_core.models.files import check_sizes as check_sizes
from wlk_core.models.files import read_json as read_json
from wlk_core.models.files import read_json_table as read_json_table
from wlk_core.models.files import read_limited as read_limited
from wlk_core.models.files import read_safetensors_header as read_safetensors_header
from wlk_core.models.files import read_safetensors_headers as read_safetensors_headers
from wlk_core.models.files import shard_names as shard_names
from wlk_core.models.files import weight_names as weight_names
from wlk_core.models.lookup import Model as Model
from wlk_core.models.lookup import cache_directory as cache_directory
from wlk_core.models.lookup import cached_repo as cached_repo
from wlk_core.models.lookup import list_models as list_models
from wlk_core.models.lookup import locate as locate
from wlk_core.models.lookup import offline_mode as offline_mode
from wlk_core.models.lookup import pull as pull
