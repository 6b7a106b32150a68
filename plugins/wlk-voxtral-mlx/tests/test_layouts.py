"""Every file layout yields the same model."""

from __future__ import annotations

from importlib.util import find_spec
import json

import attrs
from file_layouts import SMALL, file_config, file_tensor, name_in_file
import mlx.core as mx
from mlx.utils import tree_flatten
import numpy as np
import pytest

from wlk_conformance.testing import load_clip
from wlk_core import ModelNotFoundError, load_backend
from wlk_frameworks.features import LogMel
from wlk_voxtral.weight_names import LAYOUTS, layout_of, module_weight
from wlk_voxtral_mlx.checkpoint import ModelConfig, TransformerConfig
from wlk_voxtral_mlx.mlx.modules import Voxtral
from wlk_voxtral_mlx.mlx.weights import renamed_tensors

PUBLISHED = (
    ModelConfig(  # the defaults of transformers' configuration: Voxtral-Mini-4B-Realtime-2602
        encoder=TransformerConfig(
            width=1280, layers=32, heads=32, key_heads=32, head_size=64, hidden=5120, window=750
        ),
        decoder=TransformerConfig(
            width=3072, layers=26, heads=32, key_heads=8, head_size=128, hidden=9216, window=8192
        ),
        vocabulary=131_072,
    )
)
# Speech, because random weights predict the same id over and over for steady noise.
MEL = LogMel()(load_clip("demo").audio[: 40 * 1280 + 240])
PREDICTIONS = 33  # of 40 steps: the prompt ends 8 positions after the silence before them


def predicted(backend):
    """Return ids, their probabilities and margins, and the state after 3.2 s of speech."""
    predictions, state, _ = backend.engine.decode(MEL, None, delay_steps=6, draft_steps=8)
    scores = [(prediction.probability, prediction.margin) for prediction in predictions]
    return [prediction.id for prediction in predictions], scores, state


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_the_same_model(write, tmp_path, layout):
    """Names, orders and configurations differ; the predictions do not."""
    with load_backend("voxtral-mlx", str(write(tmp_path / "Mistral", "Mistral"))) as expected:
        ids, scores, _ = predicted(expected)
    with load_backend("voxtral-mlx", str(write(tmp_path / "other", layout))) as other:
        other_ids, other_scores, _ = predicted(other)

    assert len(ids) == PREDICTIONS
    assert len(set(ids)) > 3
    assert ids == other_ids
    np.testing.assert_allclose(scores, other_scores, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_published_sizes_have_a_tensor_for_each_parameter(layout):
    """Every parameter of the 4B model has a tensor of its size in each layout."""
    shapes = {name: tensor.shape for name, tensor in tree_flatten(Voxtral(PUBLISHED).parameters())}
    tensors = {
        name_in_file(name, layout): file_tensor(
            name, mx.zeros(shape, dtype=mx.bfloat16), layout, PUBLISHED
        )
        for name, shape in shapes.items()
    }
    weights = renamed_tensors({**tensors, "output.weight": mx.zeros((1,))}, PUBLISHED)

    assert len(shapes) == 711
    assert shapes == {name: tensor.shape for name, tensor in weights.items()}
    assert layout_of(list(tensors)) == layout


MLX_AUDIO = {
    "encoder.conv_layers_1_conv.conv": "encoder.conv2",
    "encoder.audio_language_projection_2": "adapter.w_out",
    "encoder.transformer_layers.3.attention.wo": "encoder.layers.3.attention.o_proj",
    "encoder.transformer_layers.3.feed_forward_w2": "encoder.layers.3.mlp.down_proj",
    "decoder.layers.5.feed_forward_w3": "language_model.layers.5.mlp.up_proj",
    "decoder.layers.5.ada_rms_norm_t_cond.ada_up": "language_model.layers.5.ada_norm.linear_out",
}


@pytest.mark.parametrize(("name", "ours"), MLX_AUDIO.items(), ids=MLX_AUDIO)
def test_names_of_mlx_audio_are_known(name, ours):
    """No package in the test environments has these names, so they are spelled out."""
    weight = module_weight(f"{name}.weight")

    assert (weight.name, weight.layout) == (f"{ours}.weight", "mlx-audio")


@pytest.mark.skipif(find_spec("voxmlx") is None, reason="pip install 'wlk-voxtral-mlx[voxmlx]'")
def test_voxmlx_has_the_same_published_weights():
    """At the published sizes its modules are ours, and so are its names for Mistral's tensors."""
    model_module = pytest.importorskip("voxmlx.model")
    remap = pytest.importorskip("voxmlx.weights")._remap_name
    reference_shapes = tree_flatten(
        model_module.VoxtralRealtime(file_config(PUBLISHED, "voxmlx")).parameters()
    )
    shapes = {name: tensor.shape for name, tensor in tree_flatten(Voxtral(PUBLISHED).parameters())}

    assert shapes == {name: tensor.shape for name, tensor in reference_shapes}
    for name in shapes:
        in_file = name_in_file(name, "Mistral")
        assert remap(in_file) == module_weight(in_file).name == name


def test_transformers_has_the_same_published_weights():
    """Its default configuration, on the meta device, has each of our parameters once."""
    torch = pytest.importorskip("torch", reason="pip install torch transformers")
    transformers = pytest.importorskip("transformers", reason="pip install torch transformers")
    config = transformers.VoxtralRealtimeConfig()
    with torch.device("meta"):
        model = transformers.VoxtralRealtimeForConditionalGeneration(config)
    reference_shapes = {name: tuple(tensor.shape) for name, tensor in model.named_parameters()}
    shapes = {name: tensor.shape for name, tensor in tree_flatten(Voxtral(PUBLISHED).parameters())}
    shapes_by_name = {module_weight(name).name: shape for name, shape in reference_shapes.items()}
    on_disk = {f"model.{name_in_file(name, 'transformers')}" for name in shapes}
    read = ModelConfig.read(config.to_dict())

    # The default configuration has another rotary base than the published one.
    assert attrs.evolve(read.encoder, rope_theta=1_000_000.0) == PUBLISHED.encoder
    assert read == attrs.evolve(PUBLISHED, encoder=read.encoder)
    assert on_disk == {
        name.replace("model.language_model", "model.language_model.model")
        for name in reference_shapes
    }
    assert set(shapes) == set(shapes_by_name)
    for name, shape in shapes.items():
        is_convolution = name.startswith("encoder.conv") and name.endswith("weight")
        expected = (shape[0], shape[2], shape[1]) if is_convolution else shape
        assert shapes_by_name[name] == expected, name


def test_files_of_the_converter_of_mlx_audio_are_read(write, random_weights, tmp_path):
    """It keeps Mistral's names beside its own configuration, which declares quantized weights."""
    with load_backend("voxtral-mlx", str(write(tmp_path / "Mistral", "Mistral"))) as expected:
        ids, _, _ = predicted(expected)
    config = {**file_config(SMALL, "mlx-audio"), "quantization": {"bits": 4, "group_size": 64}}
    directory = write(tmp_path / "kept", "Mistral")
    (directory / "consolidated.safetensors").rename(directory / "model.safetensors")
    (directory / "params.json").unlink()
    (directory / "config.json").write_text(json.dumps(config))
    with load_backend("voxtral-mlx", str(directory)) as other:
        other_ids, _, _ = predicted(other)

    assert ids == other_ids


def test_a_configuration_may_leave_out_the_windows():
    """Some files lack them or have them as strings; the published windows are the defaults."""
    config = file_config(PUBLISHED, "Mistral")
    config["sliding_window"] = "8192"
    del config["multimodal"]["whisper_model_args"]["encoder_args"]["sliding_window"]

    assert ModelConfig.read(config) == PUBLISHED


@pytest.mark.parametrize("engine", ["native", "voxmlx"])
@pytest.mark.parametrize("bits", [4, 6])
def test_quantized_weights_are_read(write, random_weights, tmp_path, bits, engine):
    """Matrices whose width is not a multiple of the group size stay as they are."""
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
        ids, scores, state = predicted(backend)
        config = backend.engine.network.config

    assert len(ids) == PREDICTIONS
    assert np.isfinite(scores).all()
    assert config.quantization.bits == bits
    assert state.nbytes > 0


def test_packed_weights_without_a_declaration_are_named(write, random_weights, tmp_path):
    """Scales are refused unless the configuration declares a quantization."""
    weights = {**random_weights, "adapter.w_in.scales": mx.zeros((64, 4))}
    directory = write(tmp_path / "undeclared", "voxmlx", weights=weights)

    with pytest.raises(ModelNotFoundError, match=r"layout: voxmlx\) .* does not declare how"):
        load_backend("voxtral-mlx", str(directory))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_missing_weight_is_named_with_its_layout(write, random_weights, tmp_path, layout):
    """One line names the layout and the number of missing weights."""
    weights = {
        name: weight for name, weight in random_weights.items() if "layers.1.mlp.up" not in name
    }
    directory = write(tmp_path / "holes", layout, weights=weights)

    with pytest.raises(ModelNotFoundError, match=rf"layout: {layout}\) .*2 weights are missing"):
        load_backend("voxtral-mlx", str(directory))
