"""The diarizer `sortformer`: load its checkpoint, and share the network among streams."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import torch

from wlk_core.plugins import locate
from wlk_diarize.engine.sortformer import SortformerDiarizer
from wlk_diarize.torch.network import TorchNetwork
from wlk_frameworks.checkpoints import read_json_table
from wlk_frameworks.torch import choose_device, choose_dtype

if TYPE_CHECKING:
    from wlk_core.plugins import AnnotatorSpec

# Shared by all open streams: 400 MB of weights, which no stream changes.
_loaded: WeakValueDictionary[object, TorchNetwork] = WeakValueDictionary()
_loading = threading.Lock()


def load(
    spec: AnnotatorSpec,
    model: str,
    *,
    latency: str | None,
    threshold: float,
    device: str,
    dtype: str,
    cache_dir: str | None,
) -> SortformerDiarizer:
    """
    Return a diarizer for one stream.

    Raises:
        ModelNotFoundError: the model is missing, or not a Nemotron 3 Diarization of transformers.
        BackendUnavailable: the device is missing.

    """
    directory = locate(model, spec=spec, cache_dir=cache_dir, needs=spec.model_files)
    declared = read_json_table(directory / "config.json").get("dtype")
    chosen = choose_device(device)
    arithmetic = choose_dtype(dtype, device=chosen, declared=declared, accelerated=torch.bfloat16)
    with _loading:
        key = (directory, chosen, arithmetic)
        if (network := _loaded.get(key)) is None:
            network = _loaded[key] = TorchNetwork(*key)
    # On one CPU core, "low" runs slower than real time, and "medium" three times as fast as "low".
    auto = "medium" if chosen.type == "cpu" else "low"
    return SortformerDiarizer(network, latency=latency or auto, threshold=threshold)
