"""The files of the checkpoint."""

from __future__ import annotations

import json

from wlk_whisper_digits import checkpoint_directory


def test_the_checkpoint_is_complete():
    """Config, weights, tokenizer, settings and licence are in one directory."""
    directory = checkpoint_directory()
    files = {path.name for path in directory.iterdir()}

    assert files == {
        "LICENSE",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "preprocessor_config.json",
        "tokenizer.json",
        "wlk.json",
    }
    assert json.loads((directory / "config.json").read_text())["model_type"] == "whisper"
    assert json.loads((directory / "wlk.json").read_text())["languages"] == ["en"]
