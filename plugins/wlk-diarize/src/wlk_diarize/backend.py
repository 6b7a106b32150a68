"""Load the diarizer: find its two models, and share them among the streams."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from wlk_core.plugins import ModelNotFoundError, locate
from wlk_diarize.engine.diarizer import ClusteringDiarizer
from wlk_diarize.engine.networks import OnnxNetworks

if TYPE_CHECKING:
    from pathlib import Path

    from wlk_core.plugins import AnnotatorSpec

__all__ = ["load"]

# Loaded once for all streams that are open: 35 MB of weights, which no stream changes.
_loaded: WeakValueDictionary[tuple[Path, Path], OnnxNetworks] = WeakValueDictionary()
_loading = threading.Lock()


def load(
    spec: AnnotatorSpec,
    model: str,
    *,
    embedding_model: str | None,
    max_speakers: int,
    cache_dir: str | None,
) -> ClusteringDiarizer:
    """
    Return a diarizer for one stream.

    Raises:
        ModelNotFoundError: a model is not available, or is of another kind.

    """
    segmentation, embedding = spec.model_files

    def directory(reference: str) -> Path:
        return locate(reference, spec=spec, cache_dir=cache_dir, needs=("**/*.onnx",))

    first = directory(model)
    if embedding_model is not None:
        second = directory(embedding_model)
    else:
        second = first if _file(first, embedding) else directory("campplus")
    with _loading:
        paths = (_needed(first, segmentation), _needed(second, embedding))
        networks = _loaded.get(paths)
        if networks is None:
            networks = _loaded[paths] = OnnxNetworks(*paths)
    return ClusteringDiarizer(networks, max_speakers=max_speakers)


def _file(directory: Path, pattern: str) -> Path | None:
    """Return the first of the alternatives of a pattern that is in *directory*."""
    paths = (directory / name for name in pattern.split("|"))
    return next((path for path in paths if path.is_file()), None)


def _needed(directory: Path, pattern: str) -> Path:
    if path := _file(directory, pattern):
        return path
    raise ModelNotFoundError(
        f"{directory} holds no {' or '.join(pattern.split('|'))}; leave the model out for the "
        "published one, or rename the file"
    )
