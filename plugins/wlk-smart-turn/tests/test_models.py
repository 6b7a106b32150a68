"""The model is found, validated and shared among streams."""

from __future__ import annotations

import gc
from importlib.metadata import EntryPoint

import pytest
from tiny_model import tiny_model

from wlk_core.plugins import ModelNotFoundError, OptionError
from wlk_core.registry import Registry
from wlk_smart_turn import backend


def test_the_registry_loads_a_file_and_a_folder(model):
    """The folder holds the file under its published name."""
    registry = Registry([EntryPoint("smart-turn", "wlk_smart_turn.plugin", "wlk.plugins")])
    from_file = registry.load_annotator("turn-detector", f"smart-turn={model}", threshold="0.9")
    model.rename(model.with_name("smart-turn-v3.2-cpu.onnx"))
    from_folder = registry.load_annotator("turn-detector", "smart-turn", model.parent)

    assert (from_file._threshold, from_folder._threshold) == (0.9, 0.95)
    assert 0.0 <= from_folder.end_of_turn("") <= 1.0


def test_streams_share_the_model_while_any_of_them_is_open(load, model):
    """A server with many sessions loads the weights once."""
    first, second = load(model), load(model)

    assert first._model is second._model
    del first, second
    gc.collect()
    assert len(backend._loaded) == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no model", r"tiny.onnx is not a model that takes float32\[1, 80, 800\]: "),
        (tiny_model(bands=128), r"is not a model that takes float32\[1, 80, 800\]: "),
        (
            tiny_model(bias=3.0, last="Identity"),
            r"expected a probability of shape \[1, 1\], got \[",
        ),
    ],
    ids=["damaged", "other features", "no probability"],
)
def test_a_wrong_model_is_refused_when_it_is_loaded(load, model, data, message):
    """The error is one line with the file and what was expected."""
    model.write_bytes(data)
    with pytest.raises(ModelNotFoundError, match=message) as caught:
        load(model)

    assert "\n" not in str(caught.value)


def test_a_model_that_is_not_there_is_named(load, tmp_path, monkeypatch):
    """This covers a file, an empty folder, and the published model without a network."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelNotFoundError, match=r"none\.onnx is not a file; leave the model out"):
        load(tmp_path / "none.onnx")
    with pytest.raises(ModelNotFoundError, match=r"holds no smart-turn-v3\.2-cpu\.onnx"):
        load(tmp_path)
    with pytest.raises(ModelNotFoundError, match=r"pull smart-turn-v3 --backend smart-turn"):
        load("smart-turn-v3", cache_dir=str(tmp_path))


@pytest.mark.parametrize("threshold", [0.0, 1.0, "high"])
def test_a_threshold_that_decides_nothing_is_refused(load, model, threshold):
    """It would end the turn at every pause, or at none."""
    with pytest.raises(OptionError, match="threshold"):
        load(model, threshold=threshold)
