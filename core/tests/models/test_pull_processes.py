"""Several processes that pull one model at the same time."""

from __future__ import annotations

import os
from pathlib import Path
import subprocess
import sys

import pytest

import wlk_core
from wlk_core.models import locate

FILES = {"config.json": b"{}", "model.bin": bytes(range(256)) * 40_000}

PULL = """
from wlk_core import BackendSpec
from wlk_core.models import locate

spec = BackendSpec(
    name="toy", api=1, summary="a toy", load="wlk_toy.backend:load", models={"base": "acme/base"},
    model_files=("config.json", "*.bin"),
)
print(locate("base", spec=spec, needs=("config.json", "*.bin")))
"""


@pytest.mark.slow
def test_three_concurrent_pulls_give_one_sound_model(hub, spec, cache, records):
    """Each process gets the model, and nothing of the others' files is mixed into it."""
    hub.publish("acme/base", FILES)
    source = str(Path(wlk_core.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PULL],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]

    ended = [(*process.communicate(timeout=600), process.returncode) for process in started]

    found = locate("base", spec=spec, offline=True)
    assert ended == [(f"{found}\n", "", 0)] * 3
    assert (found / "model.bin").read_bytes() == FILES["model.bin"]
    assert sorted(path.name for path in found.iterdir()) == ["config.json", "model.bin"]
    assert len(list((cache / "models--acme--base" / "blobs").iterdir())) == 2
    assert len([path for path in records.rglob("*") if path.is_file()]) == 1
