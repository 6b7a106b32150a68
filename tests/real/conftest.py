"""Published Whisper weights on open English: `nox -s real` installs them and runs these tests."""

from __future__ import annotations

from functools import cache
import os
from pathlib import Path

import numpy as np
import pytest

from wlk_conformance.compare import letters
from wlk_conformance.testing import StreamDriver
from wlk_core import load_backend
from wlk_live.audio import decode_file

FOLDER = os.environ.get("WLK_REAL")  # written by tools/real
MODELS = Path(FOLDER or "none") / "models"
RECORDINGS = Path(FOLDER or "none") / "recordings"
#: By name: the backend, the folder of its model, and the options of its streams.  `streamed` sets
#: ticks of two seconds, which halve the cost.
COLUMNS = {
    "faster-whisper": ("faster-whisper", "tiny.en", {}),
    "whisper-alignatt": ("whisper", "tiny.en-transformers", {"policy": "alignatt"}),
    "whisper-agreement": ("whisper", "tiny.en-transformers", {"policy": "local-agreement"}),
    "mlx-alignatt": ("mlx-whisper", "tiny.en-transformers", {"policy": "alignatt"}),
    "mlx-agreement": ("mlx-whisper", "tiny.en-transformers", {"policy": "local-agreement"}),
    "faster-whisper-base": ("faster-whisper", "base", {}),
}


def pytest_collection_modifyitems(items):
    """Mark every test of this folder slow, and skip it if the weights are missing."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if FOLDER is None:
                item.add_marker(pytest.mark.skip(reason="needs published weights: nox -s real"))


@cache
def loaded(backend, model):
    """Return a backend, loaded once per process."""
    return load_backend(backend, str(MODELS / model), dtype="float32")


@cache
def streamed(column, path, *, chunk_seconds=1.0, **options):
    """Return the driver of a stream after it was fed a whole file, once per process."""
    backend, model, policy = COLUMNS[column]
    options = {"tick_seconds": 2.0, **policy, **options}
    driver = StreamDriver(loaded(backend, model).create_processor(**options))
    driver.feed(np.concatenate(list(decode_file(path))), chunk_seconds=chunk_seconds)
    driver.drain()
    driver.finish()
    return driver


def words_in(source):
    """Return the words of a string, or of the .txt file beside a recording."""
    text = source.with_suffix(".txt").read_text("utf-8") if isinstance(source, Path) else source
    return letters(text).split()
