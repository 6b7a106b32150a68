"""The checkpoints that voxtral-hf refuses, and the messages."""

from __future__ import annotations

import json
from pathlib import Path
import shutil

import pytest
from safetensors.torch import load_file, save_file
import torch

from wlk_core import ModelNotFoundError, load_backend
import wlk_voxtral_hf

DIGITS = Path(wlk_voxtral_hf.__file__).parent / "digits"


@pytest.fixture
def checkpoint(tmp_path):
    """Return a copy of the digits checkpoint that a test may damage."""
    return shutil.copytree(DIGITS, tmp_path / "model")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"multimodal": {}}, "the layout of voxmlx, which the backend voxtral-mlx reads"),
        ({"model_type": "voxtral_realtime", "encoder_args": {}, "decoder": {}}, "of mlx-audio"),
        ({"model_type": "whisper"}, "found Mistral's own layout"),
    ],
    ids=["voxmlx", "mlx-audio", "Mistral"],
)
def test_another_layout_is_named(checkpoint, config, message):
    """The message names the layout found and the backend that reads it."""
    (checkpoint / "config.json").write_text(json.dumps(config))
    (checkpoint / "params.json").write_text("{}")

    with pytest.raises(ModelNotFoundError, match=message):
        load_backend("voxtral-hf", str(checkpoint))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda weights: weights.pop("audio_tower.layers.1.mlp.up_proj.weight"),
            r"1 missing \(.*up_proj\.weight\);",
        ),
        (
            lambda weights: weights.update(
                {"language_model.model.layers.0.input_layernorm.weight": torch.zeros(5)}
            ),
            r"norm\.weight has \(5,\), expected",
        ),
    ],
    ids=["missing", "another size"],
)
def test_an_incomplete_checkpoint_is_refused(checkpoint, change, message, capfd):
    """No weight is filled in at random, and transformers prints nothing."""
    weights = load_file(checkpoint / "model.safetensors")
    change(weights)
    save_file(weights, checkpoint / "model.safetensors")

    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load_backend("voxtral-hf", str(checkpoint))
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (
            "preprocessor_config.json",
            {"feature_size": 80},
            r"preprocessor_config\.json and config\.json .*feature_size=80, .*num_mel_bins=128;",
        ),
        (
            "generation_config.json",
            {"eos_token_id": 3},
            r"tekken\.json and generation_config\.json .*</s>=2, .*eos_token_id=3;",
        ),
        (
            "tekken.json",
            {"config": {"default_num_special_tokens": 41, "default_vocab_size": 329}},
            r"vocabulary of 328 rows, but tekken\.json has the id 328;",
        ),
    ],
    ids=["features", "end of text", "another special token"],
)
def test_files_of_another_model_are_refused(checkpoint, file, change, message):
    """Two files that must agree are named, before any word."""
    table = json.loads((checkpoint / file).read_text())
    (checkpoint / file).write_text(json.dumps({**table, **change}))

    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load_backend("voxtral-hf", str(checkpoint))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["tekken.json", "model.safetensors", "config.json"])
def test_a_missing_file_is_named(checkpoint, name):
    """It is taken from nowhere else."""
    (checkpoint / name).unlink()

    with pytest.raises(ModelNotFoundError, match=name.replace("model.safe", r"model\*?.safe")):
        load_backend("voxtral-hf", str(checkpoint))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, r"quantized \(gptq\)"),
        ({"quantization": {"bits": 4, "group_size": 64}}, r"\(\{.bits.: 4.* --backend voxtral-mlx"),
    ],
    ids=["gptq", "mlx"],
)
def test_a_configuration_that_cannot_be_run_is_named(checkpoint, change, message):
    """The message names the quantization and the remedy."""
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps({**config, **change}))

    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load_backend("voxtral-hf", str(checkpoint))
    assert "\n" not in str(caught.value)
