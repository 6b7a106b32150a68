"""Loading in transformers' format: every parameter has its weight, or the message names why not."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

pytest.importorskip("torch", reason="needs wlk-whisper[torch]")
pytest.importorskip("transformers", reason="needs wlk-whisper[torch]")

from safetensors.torch import load_file, save_file

from wlk_conformance.testing import StreamDriver, connected_digits
from wlk_core import ModelNotFoundError, OptionError, load_backend
from wlk_whisper_digits import checkpoint_directory


@pytest.fixture
def copied(tmp_path):
    """Return a copy of the checkpoint for a test to change."""
    directory = tmp_path / "model"
    shutil.copytree(checkpoint_directory(), directory)
    return directory


def text_of(model):
    """Return what the model *model* makes of two digits."""
    with load_backend("whisper", model) as backend:
        driver = StreamDriver(backend.create_processor())
        driver.feed(connected_digits(2, seed=1).audio)
        driver.finish()
        return driver.text


def test_sharded_weights_are_one_model(copied):
    """Weights in several files are combined."""
    state = load_file(copied / "model.safetensors")
    names = sorted(state)
    weight_map = {}
    for part, some in enumerate((names[::2], names[1::2]), start=1):
        file = f"model-{part:05}-of-00002.safetensors"
        save_file({name: state[name] for name in some}, copied / file)
        weight_map |= dict.fromkeys(some, file)
    (copied / "model.safetensors").unlink()
    index = {"weight_map": weight_map}
    (copied / "model.safetensors.index.json").write_text(json.dumps(index))

    assert text_of("digits") == text_of(str(copied))


def remove(name):
    """Return what deletes a file."""
    return lambda directory: (directory / name).unlink()


def configure(**entries):
    """Return what changes entries of config.json."""

    def change(directory):
        path = directory / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | entries))

    return change


def pickle_weights(directory):
    """Leave a pickle instead of the weights."""
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")


def rename_weight(directory):
    """Leave a weight out and add another."""
    state = load_file(directory / "model.safetensors")
    state["lm_head.weight"] = state.pop("model.decoder.layers.0.fc1.weight")
    save_file(state, directory / "model.safetensors")


def widen_weight(directory):
    """Cut a matrix whose size no key of the configuration gives by itself."""
    state = load_file(directory / "model.safetensors")
    name = "model.decoder.layers.0.fc2.weight"
    state[name] = state[name][:, 1:].contiguous()
    save_file(state, directory / "model.safetensors")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove("model.safetensors"), "wlk-core pull base --backend whisper"),
        (pickle_weights, r"pytorch_model\.bin: pickled weights can run code.*save_pretrained"),
        (rename_weight, r"Missing.*layers\.0\.fc1\.weight.*Unexpected.*lm_head\.weight"),
        (widen_weight, r"size mismatch for .*fc2\.weight"),
        (configure(model_type="wav2vec2"), "model_type='wav2vec2'"),
        (
            configure(decoder_attention_heads=7),
            "decoder_attention_heads to divide the width 64, got 7",
        ),
        (remove("tokenizer.json"), r"tokenizer\.json is missing; .*or copy"),
    ],
    ids=[
        "no weights", "a pickle", "other names", "another matrix", "another model", "heads",
        "no tokenizer",
    ],
)  # fmt: skip
def test_an_invalid_model_is_named(copied, damage, message):
    """Never random weights, never a pickle: one line has the reason and the remedy."""
    damage(copied)

    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load_backend("whisper", str(copied))
    assert "\n" not in str(caught.value)


def test_without_the_distribution_of_the_digits_the_command_is_named(monkeypatch):
    """Other models load without the distribution, so it is missing only here."""
    monkeypatch.setitem(sys.modules, "wlk_whisper_digits", None)

    with pytest.raises(ModelNotFoundError, match="pip install wlk-whisper-digits"):
        load_backend("whisper", "digits")


def test_a_model_without_alignment_heads_refuses_alignatt(copied):
    """The message names both remedies, and both work."""
    (copied / "generation_config.json").unlink()
    with load_backend("whisper", str(copied)) as bare:
        assert bare.create_processor(policy="local-agreement")
        with pytest.raises(OptionError, match=r"alignment_heads=.*policy=local-agreement"):
            bare.create_processor()
    with load_backend("whisper", str(copied), alignment_heads="2.0,3.1") as named:
        assert named.create_processor()
