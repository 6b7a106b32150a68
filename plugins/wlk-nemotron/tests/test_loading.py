"""The checkpoints that nemotron refuses, and the messages."""

from __future__ import annotations

import json
from pathlib import Path
import shutil

import pytest
from safetensors.torch import load_file, save_file
import torch

from wlk_core import ModelNotFoundError, load_backend
import wlk_nemotron
from wlk_nemotron.checkpoint import CheckpointConfig
from wlk_nemotron.languages import LANGUAGES

DIGITS = Path(wlk_nemotron.__file__).parent / "digits"


@pytest.fixture
def checkpoint(tmp_path):
    """Return a copy of the digits checkpoint that a test may damage."""
    return shutil.copytree(DIGITS, tmp_path / "model")


def change(path, **values):
    """Set keys of a JSON file; None removes one."""
    table = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: value for key, value in table.items() if value is not None}))


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        ("config.json", {"model_type": "whisper"}, "found model_type whisper; .* pull 0.6b"),
        ("config.json", {"vocab_size": 99}, "vocab_size=99 .* lacks the id 17"),
        ("config.json", {"vocab_size": 5, "blank_token_id": 5}, "blank_token_id=5, but .* id 15"),
        ("config.json", {"blank_token_id": 0}, "blank_token_id=0, but .* id 16 for <blank>"),
        ("config.json", {"num_decoder_layers": 10**9}, r"<= 16 .*num_decoder_layers"),
        ("config.json", {"decoder_hidden_size": 64}, "decoder_hidden_size=64, but the .* have 96"),
        ("processor_config.json", {"prompt_dictionary": {"auto": 128}}, "auto is not below 128"),
        ("processor_config.json", {"feature_extractor": {"hop_length": 80}}, "hop_length"),
        (
            "processor_config.json",
            {"feature_extractor": {"feature_size": 128}},
            r"processor_config\.json and config\.json .* feature_size=128, .*num_mel_bins=80;",
        ),
        (
            "processor_config.json",
            {"num_prompts": 64},
            r"processor_config\.json and config\.json .* num_prompts=64, .*num_prompts=128;",
        ),
        (
            "processor_config.json",
            {"feature_extractor": None},
            r"nor in preprocessor_config",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_is_named(checkpoint, file, values, message):
    """One line says what was expected and what was found."""
    change(checkpoint / file, **values)

    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load_backend("nemotron", str(checkpoint))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda w: w.pop("encoder.layers.1.conv.norm.weight"),
            r"1 missing \(encoder\S+norm\.weight\);",
        ),
        (
            lambda w: w.update({"joint.head.bias": torch.zeros(5)}),
            r"1 of another shape \(joint\.head\.bias has \(5,\), expected",
        ),
        (
            lambda w: w.update({"decoder.lstm.bias_hh_l1": torch.zeros(5)}),
            r"1 unknown \(decoder\.lstm",
        ),
    ],
    ids=["missing", "another size", "too many"],
)
def test_incomplete_weights_are_refused(checkpoint, edit, message, capfd):
    """No weight is filled in at random, and transformers prints nothing."""
    weights = load_file(checkpoint / "model.safetensors")
    edit(weights)
    save_file(weights, checkpoint / "model.safetensors")

    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load_backend("nemotron", str(checkpoint))
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["tokenizer.json", "model.safetensors", "processor_config.json"])
def test_a_missing_file_is_named(checkpoint, name):
    """It is taken from nowhere else."""
    (checkpoint / name).unlink()

    with pytest.raises(ModelNotFoundError, match=name.replace("model.safe", r"model\*?.safe")):
        load_backend("nemotron", str(checkpoint))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda vocab: vocab.insert(2, ["new", -1.0]), "has the text 'ze' for that id"),
        (lambda vocab: vocab.pop(), "lacks the id 15"),
        (lambda vocab: vocab.append(vocab.pop(0)), "has the ids 15 and 0 for <unk>"),
        (lambda vocab: vocab.extend([["a", -1.0], ["b", -1.0]]), "has the id 17"),
    ],
    ids=["shifted", "a piece less", "rotated", "pieces more"],
)
def test_a_tokenizer_of_another_model_is_refused(checkpoint, edit, message):
    """Its pieces would be other words; the message names both files."""
    path = checkpoint / "tokenizer.json"
    table = json.loads(path.read_text())
    table["added_tokens"] = table["added_tokens"][:2]
    edit(table["model"]["vocab"])
    path.write_text(json.dumps(table))

    with pytest.raises(ModelNotFoundError, match=rf"tokenizer\.json .* config\.json .*{message}"):
        load_backend("nemotron", str(checkpoint))


def test_the_published_prompts_and_tags_are_read(checkpoint):
    """Every declared language has a prompt; a tag names a language and has no text."""
    path = checkpoint / "tokenizer.json"
    table = json.loads(path.read_text())
    table["model"]["vocab"][3][0] = "<nb-NO>"
    path.write_text(json.dumps(table))
    config = CheckpointConfig.read(checkpoint, name="model")

    assert set(config.prompts) == {*LANGUAGES, "auto"}
    assert tuple(map(config.prompt, (None, "en", "de", "he"))) == (101, 0, 9, 64)
    assert config.languages == {3: "no"}
    assert config.pieces[3] == ""
