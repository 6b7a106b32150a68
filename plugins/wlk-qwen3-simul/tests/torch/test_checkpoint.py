"""A directory of Qwen3-ASR is loaded in either layout on torch, complete or not at all."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch", reason="needs wlk-qwen3-simul[torch]")
pytest.importorskip("transformers", reason="needs wlk-qwen3-simul[torch]")

import torch

from wlk_core import ModelNotFoundError
from wlk_qwen3_simul.torch.checkpoint import load_model

CPU = torch.device("cpu")


def load(directory):
    """Load a directory in float32 on the CPU."""
    return load_model(directory, device=CPU, dtype=torch.float32)


def test_both_layouts_are_the_same_model(tiny, tmp_path, checkpoint):
    """The original layout has other names for the same weights, key for key."""
    theirs = load(tiny.write_checkpoint(tmp_path / "hf", layout="hf")).state_dict()

    assert "thinker_config" in json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    for name, weights in load(checkpoint).state_dict().items():
        assert torch.equal(weights, theirs[name])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda state: state.popitem(), r"1 missing \("),
        (lambda state: state.update(more=torch.zeros(3)), r"1 unknown \(more\)"),
        (
            lambda state: state.update({"thinker.model.norm.weight": torch.zeros(3)}),
            "1 of another shape|cannot be loaded",
        ),
        (lambda state: state.clear() or state.update(more=torch.zeros(3)), "the weights have 0"),
    ],
    ids=["a key too few", "a key too many", "another shape", "no key at all"],
)
def test_weights_that_do_not_fit_key_for_key_are_refused(altered, weights, message):
    """A model with random weights would emit text, too."""
    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load(altered(weights=weights))
    assert "pull the model again" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_head_of_its_own_is_refused(altered, untied):
    """The embedding replaces the lm_head only where the config ties them."""
    with pytest.raises(ModelNotFoundError, match=r"1 missing \(lm_head\.weight\)"):
        load(altered(config=untied))


def head(change):
    """Return a change of the weights that adds a changed embedding as the lm_head."""

    def weights(state):
        state["thinker.lm_head.weight"] = change(state["thinker.model.embed_tokens.weight"])

    return weights


def test_a_head_of_its_own_is_loaded(altered, untied):
    """An untied lm_head has the weights in the file."""
    loaded = load(altered(config=untied, weights=head(lambda embedding: embedding + 1)))

    assert torch.equal(loaded.get_input_embeddings().weight + 1, loaded.lm_head.weight)


def test_a_tied_head_may_be_in_the_file(altered):
    """Some programs write the embedding twice."""
    loaded = load(altered(weights=head(torch.clone)))

    assert loaded.get_input_embeddings().weight is loaded.lm_head.weight


def test_a_tied_head_with_weights_of_its_own_is_refused(altered):
    """The directory contradicts itself, and frameworks choose differently."""
    with pytest.raises(ModelNotFoundError, match=r"an lm_head of their own.*pull the model again"):
        load(altered(weights=head(lambda embedding: embedding + 1)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden_size", "x"),
        ("hidden_size", -1),
        ("num_attention_heads", 0),
        ("hidden_act", "wave"),
        ("vocab_size", 1.5),
    ],
)
def test_an_invalid_config_is_reported_in_one_line(altered, name, value):
    """A value of the wrong type is a fault of the file, not of the loader."""
    directory = altered(config=lambda thinker: thinker["text_config"].update({name: value}))

    with pytest.raises(ModelNotFoundError, match="pull the model again") as caught:
        load(directory)
    assert "\n" not in str(caught.value)


def test_another_model_is_refused(tmp_path):
    """The message contains the type of the model."""
    (tmp_path / "config.json").write_text('{"model_type": "whisper"}', encoding="utf-8")

    with pytest.raises(ModelNotFoundError, match="model_type='whisper'"):
        load(tmp_path)
