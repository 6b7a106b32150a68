"""LoRA adapters: merged when they fit, refused when they do not."""

from __future__ import annotations

import json
from pathlib import Path
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
import wlk_whisper
from wlk_whisper.torch_checkpoint import load_whisper
from wlk_whisper.torch_network import TorchNetwork

DIGITS = Path(wlk_whisper.__file__).parent / "digits" / "transformers"
TEXT = np.array([[50258, 50259, 50359, 50363, 1732, 4018]])


def digits():
    """Return the bundled checkpoint as transformers' modules."""
    return load_whisper(DIGITS, device=torch.device("cpu"), dtype=torch.float32)


def make_adapter(place, *, is_zero=False, targets=("q_proj", "v_proj")):
    """Save an adapter of rank 2 of the digits in *place*."""
    torch.manual_seed(0)
    config = LoraConfig(r=2, target_modules=list(targets), init_lora_weights=is_zero)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # peft's, about transformers
        get_peft_model(digits(), config).save_pretrained(place)
    return place


def logits(lora_path=None):
    """Return what the digits model says to noise."""
    with load_backend(
        "whisper", "digits", device="cpu", **({"lora_path": str(lora_path)} if lora_path else {})
    ) as backend:
        network = backend._open().network
        heard = np.random.default_rng(1).uniform(-1, 1, size=(80, 200)).astype(np.float32)
        return network.begin(network.encode(heard)).forward(TEXT).logits


def test_an_adapter_changes_what_the_model_says_as_peft_does(tmp_path):
    """The merged weights give what peft gives with the adapter beside them."""
    place = make_adapter(tmp_path / "adapter")
    config = LoraConfig.from_pretrained(str(place))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        adapted = get_peft_model(digits(), config)
    state = load_file(place / "adapter_model.safetensors")
    own = adapted.state_dict()
    for name, value in state.items():
        own[name.replace(".weight", ".default.weight")].copy_(value)
    network = TorchNetwork(adapted.merge_and_unload(), alignment_heads=((2, 0),))
    heard = np.random.default_rng(1).uniform(-1, 1, size=(80, 200)).astype(np.float32)
    expected = network.begin(network.encode(heard)).forward(TEXT).logits

    np.testing.assert_allclose(expected, logits(place), rtol=1e-5, atol=1e-5)
    assert np.abs(logits() - logits(place)).max() > 1e-2


def test_an_adapter_of_zeros_changes_nothing(tmp_path):
    """Fresh adapters add nothing yet."""
    np.testing.assert_array_equal(logits(), logits(make_adapter(tmp_path, is_zero=True)))


def spoil_absent(place):
    """Take away everything."""
    for path in place.iterdir():
        path.unlink()


def spoil_pickled(place):
    """Leave a pickle in place of the weights."""
    (place / "adapter_model.safetensors").rename(place / "adapter_model.bin")


def spoil_damaged(place):
    """Cut the weights."""
    whole = (place / "adapter_model.safetensors").read_bytes()
    (place / "adapter_model.safetensors").write_bytes(whole[:100])


def spoil_missing(place):
    """Leave a weight out."""
    state = load_file(place / "adapter_model.safetensors")
    state.pop(min(state))
    save_file(state, place / "adapter_model.safetensors")


def spoil_foreign(place):
    """Make it an adapter of modules that no Whisper has."""
    told = json.loads((place / "adapter_config.json").read_text())
    (place / "adapter_config.json").write_text(json.dumps(told | {"target_modules": ["c_attn"]}))


def spoil_rank(place):
    """Say that the weights are of another rank."""
    told = json.loads((place / "adapter_config.json").read_text())
    (place / "adapter_config.json").write_text(json.dumps(told | {"r": 3}))


def spoil_kind(place, *, kind="NO_SUCH_KIND"):
    """Say that it is an adapter of a kind that peft does not have."""
    told = json.loads((place / "adapter_config.json").read_text())
    (place / "adapter_config.json").write_text(json.dumps(told | {"peft_type": kind}))


def spoil_other_kind(place):
    """Say that it is one of another kind that peft has."""
    spoil_kind(place, kind="IA3")


def spoil_list(place):
    """Leave a list where a table belongs."""
    (place / "adapter_config.json").write_text("[]")


def spoil_config(place):
    """Make the configuration unreadable."""
    (place / "adapter_config.json").write_text("{")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (spoil_absent, r"no adapter_config\.json and no adapter_model\.safetensors"),
        (spoil_pickled, r"no adapter_model\.safetensors"),
        (spoil_damaged, "does not fit the model"),
        (spoil_missing, "1 weights are missing or unknown"),
        (spoil_foreign, "does not fit the model"),
        (spoil_rank, "does not fit the model"),
        (spoil_kind, "says peft_type LORA, got 'NO_SUCH_KIND'; merge"),
        (spoil_other_kind, "says peft_type LORA, got 'IA3'; merge"),
        (spoil_list, "says peft_type LORA, got 'list'"),
        (spoil_config, r"adapter_config\.json cannot be read"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_is_no_adapter_of_this_model_is_named(tmp_path, spoil, told):
    """An adapter that is not wholly used would be one that is silently dropped."""
    place = make_adapter(tmp_path)
    spoil(place)

    with pytest.raises(OptionError, match=told) as caught:
        load_backend("whisper", "digits", lora_path=str(place))
    assert "\n" not in str(caught.value)


def test_an_adapter_is_found_in_the_home_directory(tmp_path, monkeypatch):
    """A tilde means what it means for the model and the cache."""
    make_adapter(tmp_path / "adapter")
    monkeypatch.setenv("HOME", str(tmp_path))

    np.testing.assert_array_equal(logits("~/adapter"), logits(tmp_path / "adapter"))


def test_without_peft_the_command_that_installs_it_is_named(tmp_path, monkeypatch):
    """Only who gives an adapter needs peft."""
    monkeypatch.setitem(sys.modules, "peft", None)
    monkeypatch.delitem(sys.modules, "wlk_whisper.torch_lora", raising=False)

    with pytest.raises(BackendUnavailable, match=r"pip install 'wlk-whisper\[lora\]'"):
        load_backend("whisper", "digits", lora_path=str(tmp_path))
