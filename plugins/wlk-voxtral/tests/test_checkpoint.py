"""What a checkpoint declares besides its weights."""

from __future__ import annotations

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
    return CheckpointConfig.read(directory, name="tiny", log_mel=LogMel())


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
    config.require_vocabulary(4, file=model / "config.json")

    with pytest.raises(ModelNotFoundError, match=r"3 rows, but tekken\.json has the id 3"):
        config.require_vocabulary(3, file=model / "config.json")
