"""Load the turn detector: find its model, and share it among streams."""

from __future__ import annotations

from pathlib import Path
import threading
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from wlk_core.plugins import ModelNotFoundError, locate
from wlk_smart_turn.engine.detector import SmartTurnDetector
from wlk_smart_turn.engine.model import OnnxModel

if TYPE_CHECKING:
    from wlk_core.plugins import AnnotatorSpec

# Shared by all open streams: 9 MB of weights, which no stream changes.
_loaded: WeakValueDictionary[Path, OnnxModel] = WeakValueDictionary()
_loading = threading.Lock()


def load(
    spec: AnnotatorSpec, model: str, *, threshold: float, cache_dir: str | None
) -> SmartTurnDetector:
    """
    Return a turn detector for one stream; *model* can also be the path of an ONNX file.

    Raises:
        ModelNotFoundError: the model is missing, or not a smart-turn v3.

    """
    path = Path(model).expanduser()
    if path.suffix != ".onnx":
        path = locate(model, spec=spec, cache_dir=cache_dir, needs=spec.model_files)
        path /= spec.model_files[0]
    elif not path.is_file():
        raise ModelNotFoundError(f"{path} is not a file; leave the model out for the published one")
    with _loading:
        shared = _loaded.get(path)
        if shared is None:
            shared = _loaded[path] = OnnxModel(path)
    return SmartTurnDetector(shared, threshold=threshold)
