"""LoRA adapters: merged when they fit, refused when they do not."""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs wlk-whisper[torch]")
pytest.importorskip("transformers", reason="needs wlk-whisper[torch]")
pytest.importorskip("peft", reason="needs wlk-whisper[lora]")

from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
import torch

from wlk_core import BackendUnavailable, OptionError, load_backend
from wlk_whisper.torch.backend import load_whisper
from wlk_whisper.torch.network import TorchNetwork
from wlk_whisper_digits import checkpoint_directory

DIGITS = checkpoint_directory()
TEXT = np.array([[50258, 50259, 50359, 50363, 1732, 4018]])
FEATURES = np.random.default_rng(1).uniform(-1, 1, size=(80, 200)).astype(np.float32)


def load_digits():
    """Return the bundled checkpoint as transformers' modules."""
    return load_whisper(DIGITS, device=torch.device("cpu"), dtype=torch.float32)


def make_adapter(directory):
    """Save an adapter of rank 2 for the digits in *directory*."""
    torch.manual_seed(0)
    config = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft's, about transformers
        get_peft_model(load_digits(), config).save_pretrained(directory)
    return directory


def logits_of(network):
    """Return the logits of TEXT for noise."""
    return network.new_decoder(network.encode(FEATURES)).forward(TEXT).logits


def logits(lora_path=None):
    """Return the logits of the backend, with or without an adapter."""
    options = {"lora_path": str(lora_path)} if lora_path else {}
    with load_backend("whisper", "digits", device="cpu", **options) as backend:
        return logits_of(backend.engine.network)


def test_a_merged_adapter_gives_the_numbers_of_peft(tmp_path):
    """The merged weights give the logits of peft with the adapter beside them."""
    directory = make_adapter(tmp_path / "adapter")
    config = LoraConfig.from_pretrained(str(directory))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted = get_peft_model(load_digits(), config)
    state = load_file(directory / "adapter_model.safetensors")
    own = adapted.state_dict()
    for name, value in state.items():
        own[name.replace(".weight", ".default.weight")].copy_(value)
    network = TorchNetwork(adapted.merge_and_unload(), alignment_heads=((2, 0),))

    np.testing.assert_allclose(logits_of(network), logits(directory), rtol=1e-5, atol=1e-5)
    assert np.abs(logits() - logits(directory)).max() > 1e-2


def configure(**entries):
    """Return what changes entries of the adapter's config."""

    def change(directory):
        path = directory / "adapter_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | entries))

    return change


def pickle_weights(directory):
    """Leave a pickle instead of the weights."""
    (directory / "adapter_model.safetensors").rename(directory / "adapter_model.bin")


def remove_weight(directory):
    """Leave a weight out."""
    state = load_file(directory / "adapter_model.safetensors")
    state.pop(min(state))
    save_file(state, directory / "adapter_model.safetensors")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (pickle_weights, r"no adapter_model\.safetensors"),
        (remove_weight, "1 weights are missing or unknown"),
        (configure(target_modules=["c_attn"]), "does not fit the model"),
        (configure(r=3), "does not fit the model: .*size mismatch"),
        (configure(peft_type="NO_SUCH_KIND"), "has peft_type LORA, got 'NO_SUCH_KIND'; merge"),
    ],
    ids=["a pickle", "a weight less", "other modules", "rank", "kind"],
)
def test_an_adapter_that_does_not_fit_is_named(tmp_path, damage, message):
    """An adapter that is only partly used must not load silently."""
    directory = make_adapter(tmp_path)
    damage(directory)

    with pytest.raises(OptionError, match=message) as caught:
        load_backend("whisper", "digits", lora_path=str(directory))
    assert "\n" not in str(caught.value)


def test_without_peft_the_command_that_installs_it_is_named(tmp_path, monkeypatch):
    """Only adapters need peft."""
    monkeypatch.setitem(sys.modules, "peft", None)
    monkeypatch.delitem(sys.modules, "wlk_whisper.torch.lora", raising=False)

    with pytest.raises(BackendUnavailable, match=r"pip install 'wlk-whisper\[lora\]'"):
        load_backend("whisper", "digits", lora_path=str(tmp_path))
