"""Checkpoints in transformers' format, and adapters: all weights load, or the message says why."""

from __future__ import annotations

import json
import shutil
import warnings

import pytest

pytest.importorskip("torch", reason="needs wlk-whisper[torch]")
pytest.importorskip("transformers", reason="needs wlk-whisper[torch]")

import numpy as np
from safetensors.torch import load_file, save_file
import torch

from wlk_conformance.testing import StreamDriver, connected_digits
from wlk_core import ModelNotFoundError, OptionError, load_backend
from wlk_whisper.torch.backend import load_whisper
from wlk_whisper.torch.network import TorchNetwork
from wlk_whisper_digits import checkpoint_directory

ADAPTER, CONFIG = "adapter_model.safetensors", "adapter_config.json"
TEXT = np.array([[50258, 50259, 50359, 50363, 1732, 4018]])
FEATURES = np.random.default_rng(1).uniform(-1, 1, size=(80, 200)).astype(np.float32)


@pytest.fixture
def copied(tmp_path):
    """Return a copy of the checkpoint for a test to change."""
    directory = tmp_path / "model"
    shutil.copytree(checkpoint_directory(), directory)
    return directory


def text_of(model):
    """Return the text that *model* recognises in two digits."""
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
    index = {"metadata": {}, "weight_map": weight_map}
    (copied / "model.safetensors.index.json").write_text(json.dumps(index))

    assert text_of(str(copied)) == text_of("digits")


def remove(name):
    """Return a function that deletes a file."""
    return lambda directory: (directory / name).unlink()


def configure(file="config.json", **entries):
    """Return a function that changes entries of a JSON file."""

    def change(directory):
        path = directory / file
        path.write_text(json.dumps(json.loads(path.read_text()) | entries))

    return change


def rename(name, other):
    """Return a function that renames a file."""
    return lambda directory: (directory / name).rename(directory / other)


def rename_weight(directory):
    """Leave a weight out and add another."""
    state = load_file(directory / "model.safetensors")
    state["lm_head.weight"] = state.pop("model.decoder.layers.0.fc1.weight")
    save_file(state, directory / "model.safetensors")


def widen_weight(directory):
    """Cut a matrix whose size no single key of the configuration gives."""
    state = load_file(directory / "model.safetensors")
    name = "model.decoder.layers.0.fc2.weight"
    state[name] = state[name][:, 1:].contiguous()
    save_file(state, directory / "model.safetensors")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove("model.safetensors"), "wlk-core pull base --backend whisper"),
        (
            rename("model.safetensors", "pytorch_model.bin"),
            r"pytorch_model\.bin: pickled weights can run code.*save_pretrained",
        ),
        (rename_weight, r"1 missing \(.*layers\.0\.fc1\.weight\); 1 unknown \(lm_head\.weight\)"),
        (widen_weight, r"1 of another shape \(.*fc2\.weight has"),
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
    """Neither random weights nor a pickle are used: one line has the reason and the remedy."""
    damage(copied)

    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load_backend("whisper", str(copied))
    assert "\n" not in str(caught.value)


def test_a_model_without_alignment_heads_refuses_alignatt(copied):
    """The message names both remedies, and both work."""
    (copied / "generation_config.json").unlink()
    with load_backend("whisper", str(copied)) as bare:
        assert bare.create_processor(policy="local-agreement")
        with pytest.raises(OptionError, match=r"alignment_heads=.*policy=local-agreement"):
            bare.create_processor()
    with load_backend("whisper", str(copied), alignment_heads="2.0,3.1") as named:
        assert named.create_processor()


def load_digits():
    """Return the bundled checkpoint as transformers' modules."""
    return load_whisper(checkpoint_directory(), device=torch.device("cpu"), dtype=torch.float32)


@pytest.fixture
def adapter(tmp_path):
    """Return the directory of an adapter of rank 2 for the digits."""
    peft = pytest.importorskip("peft", reason="needs wlk-whisper[lora]")
    torch.manual_seed(0)
    config = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft's, about transformers
        peft.get_peft_model(load_digits(), config).save_pretrained(tmp_path)
    return tmp_path


def logits_of(network):
    """Return the logits of TEXT for noise."""
    return network.new_decoder(network.encode(FEATURES)).forward(TEXT).logits


def logits(lora_path=None):
    """Return the logits of the backend, with or without an adapter."""
    options = {"lora_path": str(lora_path)} if lora_path else {}
    with load_backend("whisper", "digits", device="cpu", **options) as backend:
        return logits_of(backend.engine.network)


def test_a_merged_adapter_gives_the_numbers_of_peft(adapter):
    """The merged weights give the logits of peft with the adapter beside them."""
    from peft import LoraConfig, get_peft_model  # noqa: PLC0415 -- not installed everywhere

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted = get_peft_model(load_digits(), LoraConfig.from_pretrained(str(adapter)))
    state = load_file(adapter / ADAPTER)
    own = adapted.state_dict()
    for name, value in state.items():
        own[name.replace(".weight", ".default.weight")].copy_(value)
    network = TorchNetwork(adapted.merge_and_unload(), alignment_heads=((2, 0),))

    np.testing.assert_allclose(logits_of(network), logits(adapter), rtol=1e-5, atol=1e-5)
    assert np.abs(logits() - logits(adapter)).max() > 1e-2


def remove_adapter_weight(directory):
    """Leave a weight out."""
    state = load_file(directory / ADAPTER)
    state.pop(min(state))
    save_file(state, directory / ADAPTER)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (rename(ADAPTER, "adapter_model.bin"), r"no adapter_model\.safetensors"),
        (remove_adapter_weight, "1 weights are missing or unknown"),
        (configure(CONFIG, target_modules=["c_attn"]), "does not fit the model"),
        (configure(CONFIG, r=3), "does not fit the model: .*size mismatch"),
        (
            configure(CONFIG, peft_type="NO_SUCH_KIND"),
            "peft_type LORA, got 'NO_SUCH_KIND'; merge",
        ),
    ],
    ids=["a pickle", "a weight less", "other modules", "rank", "kind"],
)
def test_an_adapter_that_does_not_fit_is_named(adapter, damage, message):
    """An adapter that is only partly used must not load silently."""
    damage(adapter)

    with pytest.raises(OptionError, match=message) as caught:
        load_backend("whisper", "digits", lora_path=str(adapter))
    assert "\n" not in str(caught.value)
