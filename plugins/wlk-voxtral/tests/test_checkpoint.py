"""What a checkpoint declares besides its weights."""

from __future__ import annotations

import json

import pytest

from wlk_core import ModelNotFoundError, OptionError
from wlk_frameworks.features import LogMel
from wlk_voxtral.checkpoint import CheckpointConfig


@pytest.fixture
def model(tmp_path, tekken_json):
    """Return a directory with a tokenizer and a wlk.json."""
    (tmp_path / "tekken.json").write_text(tekken_json)
    (tmp_path / "wlk.json").write_text('{"dtype": "float32", "delays_ms": [240, 480]}')
    return tmp_path


def read(directory):
    """Return the config of the model in a directory."""
    file = directory / "config.json"
    return CheckpointConfig.read(directory, name="tiny", log_mel=LogMel(), config_file=file)


def test_a_checkpoint_declares_its_arithmetic_and_delays(model):
    """The dtype and the delays it was trained for are read from wlk.json."""
    config = read(model)

    assert (config.name, config.dtype, config.delays_ms) == ("tiny", "float32", (240, 480))


@pytest.mark.parametrize("delay_ms", [800, 100])
def test_a_delay_that_it_was_not_trained_for_is_refused(model, delay_ms):
    """The message names the delays that it was trained for."""
    with pytest.raises(OptionError, match="trained for a delay_ms of 240, 480"):
        read(model).delay_steps(delay_ms)


def test_a_checkpoint_without_declarations_has_any_delay_of_the_format(model):
    """Most checkpoints are published without a wlk.json."""
    (model / "wlk.json").unlink()
    config = read(model)

    assert (config.dtype, config.delays_ms) == (None, None)
    assert config.delay_steps(2400) == 30


def test_a_directory_without_a_tokenizer_is_refused(model):
    """The message names the file and the remedy."""
    (model / "tekken.json").unlink()

    with pytest.raises(ModelNotFoundError, match=r"no tekken\.json, .*; pull the model again, or"):
        read(model)


def test_a_vocabulary_without_the_ids_of_the_tokenizer_is_refused(model):
    """Without a row for them in the embedding, the first step would fail."""
    config = read(model)
    config.require_vocabulary(260, file=model / "config.json")

    with pytest.raises(ModelNotFoundError, match=r"259 rows, but tekken\.json has the id 259"):
        config.require_vocabulary(259, file=model / "config.json")


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"bos_token_id": 1}, r"<s>=0, but {name} has bos_token_id=1;"),
        ({"text_config": {"eos_token_id": 2}}, r"</s>=1, but {name} has eos_token_id=2;"),
    ],
    ids=["start", "end"],
)
def test_ids_that_the_tokenizer_does_not_have_are_refused(model, name, table, message):
    """A tokenizer with other special tokens would turn every id into another text."""
    (model / name).write_text(json.dumps(table))

    with pytest.raises(
        ModelNotFoundError, match=r"tekken\.json and .*" + message.format(name=name)
    ):
        read(model)


def test_ids_that_the_tokenizer_has_pass(model):
    """A list of ends is that of generation, which may stop elsewhere too."""
    for name, end in (("config.json", 1), ("generation_config.json", [1, 7])):
        (model / name).write_text(json.dumps({"bos_token_id": 0, "eos_token_id": end}))

    assert read(model).tokenizer.eos_id == 1


def test_mel_bands_of_another_model_are_refused(model):
    """The tokenizer's file declares those that its model reads."""
    table = json.loads((model / "tekken.json").read_text())
    table["audio"]["audio_encoding_config"] = {"num_mel_bins": 80}
    (model / "tekken.json").write_text(json.dumps(table))

    with pytest.raises(ModelNotFoundError, match=r"num_mel_bins=80, but config\.json .*=128;"):
        read(model)
