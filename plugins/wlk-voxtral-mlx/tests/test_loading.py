"""The checkpoints and machines that voxtral-mlx refuses, and the messages."""

from __future__ import annotations

from importlib.util import find_spec

import mlx.core as mx
import pytest

from wlk_core import BackendUnavailable, ModelNotFoundError, load_backend
from wlk_voxtral_mlx.mlx import weights

needs_voxmlx = pytest.mark.skipif(
    find_spec("voxmlx") is None, reason="pip install 'wlk-voxtral-mlx[voxmlx]'"
)


@needs_voxmlx
def test_a_layout_that_voxmlx_cannot_read_is_named(write, tmp_path):
    """Without this check, voxmlx would fail with a missing key."""
    directory = write(tmp_path / "model", "transformers")

    with pytest.raises(ModelNotFoundError, match="is transformers, but voxmlx reads only"):
        load_backend("voxtral-mlx", str(directory), engine="voxmlx")


@needs_voxmlx
def test_voxmlx_refuses_an_incomplete_checkpoint(write, random_weights, tmp_path, capfd):
    """Its error is reported in one line, like those of the native engine."""
    incomplete = {
        name: tensor for name, tensor in random_weights.items() if "layers.1.mlp.up" not in name
    }
    directory = write(tmp_path / "holes", "voxmlx", weights=incomplete)

    with pytest.raises(ModelNotFoundError, match=r"layout: voxmlx\) .*up_proj") as caught:
        load_backend("voxtral-mlx", str(directory), engine="voxmlx")
    assert "\n" not in str(caught.value)
    assert not capfd.readouterr().out


@pytest.mark.parametrize("engine", ["native", pytest.param("voxmlx", marks=needs_voxmlx)])
def test_memory_that_runs_out_while_loading_is_reported(monkeypatch, engine):
    """MLX raises a RuntimeError; the message has the remedy of the check before loading."""

    class Full:
        def __getattr__(self, name):
            return getattr(mx, name)

        def eval(self, *_arrays):
            raise RuntimeError("[metal::malloc] Attempting to allocate 9000000000 bytes")

    monkeypatch.setattr(weights, "mx", Full())

    with pytest.raises(BackendUnavailable, match=r"GB of memory.*choose .*mini-4bit"):
        load_backend("voxtral-mlx", "digits", engine=engine)


def test_auto_keeps_the_stored_type_of_a_checkpoint_without_declaration(write, tmp_path):
    """The weights are cast only to a declared or requested dtype."""
    directory = write(tmp_path / "model", "Mistral")
    with load_backend("voxtral-mlx", str(directory)) as stored:
        kept = stored.engine.network.model.language_model.norm.weight.dtype
    with load_backend("voxtral-mlx", str(directory), dtype="float16") as cast:
        requested = cast.engine.network.model.language_model.norm.weight.dtype

    assert (kept, requested) == (mx.float32, mx.float16)
