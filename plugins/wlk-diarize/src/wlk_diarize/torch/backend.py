"""Load the diarizer sortformer: find its checkpoint, and share the network among the streams."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import torch

from wlk_core.frameworks.torch import choose_device, choose_dtype
from wlk_core.models import read_json_table
from wlk_core.plugins import locate
from wlk_diarize.engine.sortformer import SortformerDiarizer
from wlk_diarize.torch.network import TorchNetwork

if TYPE_CHECKING:
    from wlk_core.plugins import AnnotatorSpec

# Loaded once for all streams that are open: 400 MB of weights, which no stream changes.
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
        ModelNotFoundError: the model is absent, or not a Nemotron 3 Diarization of transformers.
        BackendUnavailable: the device is absent.

    """
    directory = locate(model, spec=spec, cache_dir=cache_dir, needs=spec.model_files)
    declared = read_json_table(directory / "config.json").get("dtype")
    chosen = choose_device(device)
    arithmetic = choose_dtype(dtype, device=chosen, declared=declared, accelerated=torch.bfloat16)
    with _loading:
        key = (directory, chosen, arithmetic)
        if (network := _loaded.get(key)) is None:
            network = _loaded[key] = TorchNetwork(*key)
    # On one core of a CPU "low" takes longer than the audio lasts, and "medium" a third of that.
    usual = "medium" if chosen.type == "cpu" else "low"
    return SortformerDiarizer(network, latency=latency or usual, threshold=threshold)
