"""Every layout finds its way into the same model."""

from __future__ import annotations

from importlib.util import find_spec
import json

import attrs
from mlx import nn
import mlx.core as mx
from mlx.utils import tree_flatten
import numpy as np
import pytest
from voxtral_layouts import SMALL, their_config, their_name, their_tensor

from wlk_core import ModelNotFoundError, load_backend
from wlk_core.streaming import LogMel
from wlk_core.testing import load_clip
from wlk_voxtral_mlx.names import LAYOUTS, layout_of, place_of
from wlk_voxtral_mlx.network import Voxtral
from wlk_voxtral_mlx.shape import AttentionShape, Shape
from wlk_voxtral_mlx.weights import arranged

PUBLISHED = Shape(  # the defaults of transformers' configuration: Voxtral-Mini-4B-Realtime-2602
    encoder=AttentionShape(
        width=1280, layers=32, heads=32, key_heads=32, head_size=64, hidden=5120, window=750
    ),
    decoder=AttentionShape(
        width=3072, layers=26, heads=32, key_heads=8, head_size=128, hidden=9216, window=8192
    ),
    vocabulary=131_072,
)
# Speech: to steady noise, random weights say the same id again and again.
MEL = LogMel()(load_clip("demo").audio[: 40 * 1280 + 240])
CHOICES = 33  # of 40 steps: the prompt ends 8 positions behind the silence it is heard with


def said(backend):
    """Return ids, their probabilities and leads, and the state behind 3.2 s of speech."""
    choices, state, _ = backend.engine.decode(MEL, None, delay_steps=6, draft_steps=8)
    surely = [(choice.probability, choice.margin) for choice in choices]
    return [choice.id for choice in choices], surely, state


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_the_same_model(write, tmp_path, layout):
    """Names, orders and configurations differ; what is said does not."""
    with load_backend("voxtral-mlx", str(write(tmp_path / "Mistral", "Mistral"))) as expected:
        ids, surely, _ = said(expected)
    with load_backend("voxtral-mlx", str(write(tmp_path / "other", layout))) as other:
        came, others, _ = said(other)

    assert CHOICES == len(ids)
    assert len(set(ids)) > 3
    assert ids == came
    np.testing.assert_allclose(surely, others, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_published_sizes_find_their_places(layout):
    """Every parameter of the 4B model has one tensor in each layout, of the size it asks for."""
    wanted = {name: tensor.shape for name, tensor in tree_flatten(Voxtral(PUBLISHED).parameters())}
    theirs = {
        their_name(name, layout): their_tensor(
            name, mx.zeros(shape, dtype=mx.bfloat16), layout, PUBLISHED
        )
        for name, shape in wanted.items()
    }
    ours = arranged({**theirs, "output.weight": mx.zeros((1,))}, PUBLISHED)

    assert 711 == len(wanted)
    assert wanted == {name: tensor.shape for name, tensor in ours.items()}
    assert layout == layout_of(list(theirs))


@pytest.mark.skipif(find_spec("voxmlx") is None, reason="pip install 'wlk-voxtral-mlx[voxmlx]'")
def test_voxmlx_has_the_same_published_weights():
    """Its modules at the published sizes are ours, and it takes Mistral's names for the same."""
    model_module = pytest.importorskip("voxmlx.model")
    remap = pytest.importorskip("voxmlx.weights")._remap_name
    theirs = tree_flatten(
        model_module.VoxtralRealtime(their_config(PUBLISHED, "voxmlx")).parameters()
    )
    ours = {name: tensor.shape for name, tensor in tree_flatten(Voxtral(PUBLISHED).parameters())}

    assert ours == {name: tensor.shape for name, tensor in theirs}
    for name in ours:
        their = their_name(name, "Mistral")
        assert remap(their) == place_of(their).name == name


def test_transformers_has_the_same_published_weights():
    """Its default configuration, on the meta device, asks for what we ask for, one for one."""
    torch = pytest.importorskip("torch", reason="pip install torch transformers")
    transformers = pytest.importorskip("transformers", reason="pip install torch transformers")
    config = transformers.VoxtralRealtimeConfig()
    with torch.device("meta"):
        model = transformers.VoxtralRealtimeForConditionalGeneration(config)
    theirs = {name: tuple(tensor.shape) for name, tensor in model.named_parameters()}
    ours = {name: tensor.shape for name, tensor in tree_flatten(Voxtral(PUBLISHED).parameters())}
    placed = {place_of(name).name: shape for name, shape in theirs.items()}
    on_disk = {f"model.{their_name(name, 'transformers')}" for name in ours}
    read = Shape.read(config.to_dict())

    # Left alone, that configuration has another base of the rotary angles than what is published.
    assert PUBLISHED.encoder == attrs.evolve(read.encoder, rope_theta=1_000_000.0)
    assert attrs.evolve(PUBLISHED, encoder=read.encoder) == read
    assert on_disk == {
        name.replace("model.language_model", "model.language_model.model") for name in theirs
    }
    assert set(ours) == set(placed)
    for name, shape in ours.items():
        is_convolution = name.startswith("encoder.conv") and name.endswith("weight")
        expected = (shape[0], shape[2], shape[1]) if is_convolution else shape
        assert expected == placed[name], name


def test_what_the_converter_of_mlx_audio_writes_is_read(write, random_weights, tmp_path):
    """It keeps Mistral's names beside a configuration of its own, and promises packed weights."""
    with load_backend("voxtral-mlx", str(write(tmp_path / "Mistral", "Mistral"))) as expected:
        ids, _, _ = said(expected)
    config = {**their_config(SMALL, "mlx-audio"), "quantization": {"bits": 4, "group_size": 64}}
    directory = write(tmp_path / "kept", "Mistral")
    (directory / "consolidated.safetensors").rename(directory / "model.safetensors")
    (directory / "params.json").unlink()
    (directory / "config.json").write_text(json.dumps(config))
    with load_backend("voxtral-mlx", str(directory)) as other:
        came, _, _ = said(other)

    assert ids == came


@pytest.mark.parametrize("layout", LAYOUTS)
def test_configurations_tell_the_published_sizes(layout):
    """Each kind of configuration is read to the same shape."""
    assert PUBLISHED == Shape.read(json.loads(json.dumps(their_config(PUBLISHED, layout))))


def test_a_configuration_may_be_silent_about_windows():
    """Some files hold none, or text; the published windows stand in."""
    config = their_config(PUBLISHED, "Mistral")
    config["sliding_window"] = "8192"
    del config["multimodal"]["whisper_model_args"]["encoder_args"]["sliding_window"]

    assert PUBLISHED == Shape.read(config)


@pytest.mark.parametrize("engine", ["native", "voxmlx"])
@pytest.mark.parametrize("bits", [4, 6, 8])
def test_quantized_weights_are_read(write, random_weights, tmp_path, bits, engine):
    """Groups that do not divide a matrix stay as they are; everything else is packed."""
    if engine == "voxmlx":
        pytest.importorskip("voxmlx", reason="pip install 'wlk-voxtral-mlx[voxmlx]'")
    packed = {}
    for name, tensor in random_weights.items():
        module = name.removesuffix(".weight")
        is_matrix = tensor.ndim == 2 and tensor.shape[-1] % 64 == 0
        if name.endswith(".weight") and is_matrix:
            weight, scales, biases = mx.quantize(tensor, group_size=64, bits=bits)
            packed |= {name: weight, f"{module}.scales": scales, f"{module}.biases": biases}
        else:
            packed[name] = tensor
    config = {"quantization": {"bits": bits, "group_size": 64}}
    directory = write(tmp_path / "packed", "voxmlx", weights=packed, config=config)
    with load_backend("voxtral-mlx", str(directory), engine=engine) as backend:
        ids, surely, state = said(backend)
        shape = backend.engine._shape

    assert CHOICES == len(ids)
    assert np.isfinite(surely).all()
    assert bits == shape.quantization.bits
    assert state.nbytes > 0


def test_a_quantization_that_cannot_be_read_is_named(write, tmp_path):
    """The message says what it is and what it could be."""
    config = {"quantization": {"bits": 7, "group_size": 64}}
    directory = write(tmp_path / "odd", "voxmlx", config=config)

    with pytest.raises(ModelNotFoundError, match="affine, 7 bits in groups of 64; expected"):
        load_backend("voxtral-mlx", str(directory))


def test_packed_weights_without_a_word_about_it_are_named(write, random_weights, tmp_path):
    """Scales without a quantization in the configuration tell that a file is missing."""
    weights = {**random_weights, "adapter.w_in.scales": mx.zeros((64, 4))}
    directory = write(tmp_path / "silent", "voxmlx", weights=weights)

    with pytest.raises(ModelNotFoundError, match=r"voxmlx layout .* does not say how"):
        load_backend("voxtral-mlx", str(directory))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_missing_weight_is_named_with_its_layout(write, random_weights, tmp_path, layout):
    """What was found and what is missing, in one line."""
    weights = {name: one for name, one in random_weights.items() if "layers.1.mlp.up" not in name}
    directory = write(tmp_path / "holes", layout, weights=weights)

    with pytest.raises(ModelNotFoundError, match=f"{layout} layout .*2 weights are missing"):
        load_backend("voxtral-mlx", str(directory))


def test_a_weight_of_another_size_is_named(write, random_weights, tmp_path):
    """A configuration that does not belong to the weights is found out."""
    weights = {**random_weights, "language_model.norm.weight": mx.zeros((63,))}
    directory = write(tmp_path / "sizes", "Mistral", weights=weights)

    with pytest.raises(ModelNotFoundError, match=r"norm\.weight has the shape"):
        load_backend("voxtral-mlx", str(directory))


@pytest.mark.parametrize("name", ["model.decoder.layers.0.fc1.weight", "vision.patch", "weight"])
def test_names_of_other_models_have_no_place(name):
    """Whisper's weights, say, are not taken for Voxtral's."""
    assert place_of(name) is None


def test_the_tree_is_one_of_modules():
    """Quantization packs what has a way to be packed: linear layers and the embedding."""
    tree = Voxtral(SMALL)

    assert isinstance(tree, nn.Module)
