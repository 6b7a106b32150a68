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
from wlk_core.audio import decode_file

FOLDER = os.environ.get("WLK_REAL")  # models/ and recordings/, made by tools/real
#: By name: the backend, the folder of its model, and the options of its streams.  Two seconds from
#: tick to tick halve the cost.
COLUMNS = {
    "faster-whisper": ("faster-whisper", "tiny.en", {}),
    "whisper-alignatt": ("whisper", "tiny.en-transformers", {"policy": "alignatt"}),
    "whisper-agreement": ("whisper", "tiny.en-transformers", {"policy": "local-agreement"}),
    "mlx-alignatt": ("mlx-whisper", "tiny.en-transformers", {"policy": "alignatt"}),
    "mlx-agreement": ("mlx-whisper", "tiny.en-transformers", {"policy": "local-agreement"}),
    "faster-whisper-base": ("faster-whisper", "base", {}),
}


def pytest_collection_modifyitems(items):
    """Skip everything in this folder where the weights are missing; the streams take seconds."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if FOLDER is None:
                item.add_marker(pytest.mark.skip(reason="needs published weights: nox -s real"))


@pytest.fixture
def models():
    """Return the folder of the model directories."""
    return Path(FOLDER) / "models"


@pytest.fixture
def recordings():
    """Return the folder of recordings."""
    return Path(FOLDER) / "recordings"


@pytest.fixture
def columns():
    """Return the backend, the model and the options of each column."""
    return COLUMNS


@pytest.fixture
def stream_of():
    """Return a function that streams a recording to a column, once in each process."""
    return _streamed


@cache
def _loaded(backend, model):
    return load_backend(backend, f"{FOLDER}/models/{model}", dtype="float32")


@cache
def _streamed(column, path, *, chunk_seconds=1.0, **options):
    """Return the driver of a stream that was fed a whole file."""
    backend, model, policy = COLUMNS[column]
    options = {"tick_seconds": 2.0, **policy, **options}
    driver = StreamDriver(_loaded(backend, model).create_processor(**options))
    driver.feed(np.concatenate(list(decode_file(path))), chunk_seconds=chunk_seconds)
    driver.drain()
    driver.finish()
    return driver


@pytest.fixture
def gated():
    """Return a function that transcribes a recording with the voice activity gate."""
    return lambda path: _loaded("faster-whisper", "tiny.en").transcribe(path).text


@pytest.fixture
def words_in():
    """Return a function that splits a text, or the .txt of a recording, into its words."""

    def words(source):
        text = source.with_suffix(".txt").read_text("utf-8") if isinstance(source, Path) else source
        return letters(text).split()

    return words
