"""Whisper's layers on torch and MLX give the numbers of transformers, whole and in pieces."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from wlk_whisper.engine.features import following_silence
from wlk_whisper_digits import checkpoint_directory

DIGITS = checkpoint_directory()
HEADS = ((1, 0), (2, 3), (3, 2))
TEXT = (50258, 50259, 50359, 50363, 1732, 4018, 732, 1045, 3124)
MISSING = {
    "torch": pytest.mark.skipif(find_spec("transformers") is None, reason="wlk-whisper[torch]"),
    "mlx": pytest.mark.skipif(find_spec("mlx") is None, reason="wlk-whisper[mlx]"),
}
FRAMEWORKS = [pytest.param(name, marks=mark) for name, mark in MISSING.items()]
DTYPES = [("torch", "float16"), ("torch", "bfloat16"), ("mlx", "float16")]


def load(framework, directory, *, heads=HEADS, dtype="float32"):
    """Return the network of a checkpoint in transformers' format."""
    if framework == "torch":
        import torch  # noqa: PLC0415 -- not installed everywhere

        from wlk_whisper.torch.backend import load_whisper  # noqa: PLC0415 -- imports torch
        from wlk_whisper.torch.network import TorchNetwork  # noqa: PLC0415 -- imports torch

        whisper = load_whisper(directory, device=torch.device("cpu"), dtype=getattr(torch, dtype))
        return TorchNetwork(whisper, alignment_heads=heads)
    import mlx.core as mx  # noqa: PLC0415 -- not installed everywhere

    from wlk_frameworks.mlx import shared_stream  # noqa: PLC0415 -- imports MLX
    from wlk_whisper.mlx.checkpoint import load_model  # noqa: PLC0415 -- imports MLX
    from wlk_whisper.mlx.network import MlxNetwork  # noqa: PLC0415 -- imports MLX

    whisper, _ = load_model(directory, dtype=getattr(mx, dtype))
    stream = shared_stream("cpu", install_hint="")
    return MlxNetwork(whisper, alignment_heads=heads, stream=stream, dtype=getattr(mx, dtype))


@pytest.fixture(scope="module", params=FRAMEWORKS)
def network(request):
    """Return the network of the digits on each framework."""
    return load(request.param, DIGITS)


def features(frames, *, bands=80):
    """Return noise in the range of log-mel features."""
    return np.random.default_rng(0).uniform(-1, 1, size=(bands, frames)).astype(np.float32)


def forward_whole(network, encoder_output, tokens):
    """Return one forward pass over all *tokens*, with all logits and attention."""
    return network.new_decoder(encoder_output).forward(
        np.array([tokens]), logits_to_keep=range(len(tokens)), output_attention=True
    )


@pytest.mark.parametrize("frames", [80, 52])
@pytest.mark.parametrize(
    ("framework", "shape"),
    [
        (framework, shape)
        for framework in ("torch", "mlx")
        for shape in (
            {"num_mel_bins": 128, "encoder_layers": 3, "decoder_layers": 1},
            {"encoder_attention_heads": 2, "decoder_attention_heads": 8},
            {"activation_function": "relu", "tie_word_embeddings": False, "decoder_ffn_dim": 40},
        )
        if framework == "torch" or "decoder_ffn_dim" not in shape  # mlx-whisper has one kind
    ],
    ids=str,
)
def test_logits_and_attention_are_those_of_transformers(tmp_path, framework, shape, frames):
    """Any shape, two rows, and a window that is shorter than the checkpoint's."""
    torch = pytest.importorskip("torch", reason="needs wlk-whisper[torch]")
    transformers = pytest.importorskip("transformers", reason="needs wlk-whisper[torch]")
    if framework == "mlx":
        pytest.importorskip("mlx.core", reason="needs wlk-whisper[mlx]", exc_type=ImportError)
    torch.manual_seed(1)
    ids = {"pad_token_id": 3, "bos_token_id": 3, "eos_token_id": 3, "decoder_start_token_id": 4}
    sizes = {"d_model": 48, "encoder_ffn_dim": 192, "decoder_ffn_dim": 192, "vocab_size": 90}
    config = transformers.WhisperConfig(**(sizes | ids | {"max_source_positions": 40} | shape))
    model = transformers.WhisperForConditionalGeneration(config).eval()
    model.save_pretrained(tmp_path)
    network = load(framework, tmp_path, heads=((0, 1), (0, 0)))
    inputs, tokens = features(frames, bands=config.num_mel_bins), np.array([[4, 10], [4, 50]])

    model.set_attn_implementation("eager")  # the only one that returns attention
    positions = model.model.encoder.embed_positions
    model.config.max_source_positions = positions.num_embeddings = frames // 2
    positions.weight = torch.nn.Parameter(positions.weight[: frames // 2], requires_grad=False)
    with torch.inference_mode():
        expected = model(
            input_features=torch.from_numpy(inputs)[None].expand(2, -1, -1),
            decoder_input_ids=torch.from_numpy(tokens),
            output_attentions=True,
        )
    decoder = network.new_decoder(network.encode(inputs))
    decoder.reorder_cache([0, 0])
    output = decoder.forward(tokens, logits_to_keep=range(2), output_attention=True)

    assert (network.n_mels, network.n_vocab, network.n_text_ctx) == (config.num_mel_bins, 90, 448)
    np.testing.assert_allclose(expected.logits.numpy(), output.logits, rtol=1e-5, atol=1e-5)
    attention = expected.cross_attentions[0].numpy()[:, [1, 0]]
    np.testing.assert_allclose(attention, output.cross_attention, atol=1e-6)


def test_a_padded_window_goes_on_with_the_encoder_output_of_silence(network):
    """The decoder attends to the frames of the audio, then to some of 30 s of silence."""
    audio, padded = (network.encode(features(200), silence_stride=stride) for stride in (0, 12))
    silence = getattr(network, "encoder", network).silence
    parts = [getattr(output, "cross", output) for output in (audio, silence, padded)]

    kept = following_silence(100, 12)
    assert parts[2].frames == 100 + len(range(1500)[kept])
    for layer in zip(*(part.cross_kv for part in parts), strict=True):
        for own, silent, joined in zip(*layer, strict=True):
            assert (own == joined[:, :, :100]).all()
            assert (silent[:, :, kept] == joined[:, :, 100:]).all()


@pytest.mark.parametrize("pieces", [(1,) * 9, (4, 1, 1, 3), (8, 1)], ids=str)
def test_a_text_in_pieces_gives_the_numbers_of_one_pass(network, pieces):
    """The KV cache loses nothing: logits and attention equal a full recomputation."""
    encoder_output = network.encode(features(400))
    whole = forward_whole(network, encoder_output, TEXT)
    decoder, logits, attention, first = network.new_decoder(encoder_output), [], [], 0
    for length in pieces:
        piece = np.array([TEXT[first : first + length]])
        output = decoder.forward(piece, logits_to_keep=range(length), output_attention=True)
        logits.append(output.logits)
        attention.append(output.cross_attention)
        first += length

    np.testing.assert_allclose(whole.logits, np.concatenate(logits, axis=1), rtol=1e-5, atol=5e-5)
    np.testing.assert_allclose(whole.cross_attention, np.concatenate(attention, axis=2), atol=1e-5)


@pytest.mark.parametrize(
    ("framework", "dtype"),
    [pytest.param(*pair, marks=MISSING[pair[0]]) for pair in DTYPES],
)
def test_half_precision_stays_close(framework, dtype):
    """Other arithmetic gives the same numbers within its precision, still as float32."""
    exact, coarse = (
        forward_whole(network, network.encode(features(300)), TEXT)
        for network in (load(framework, DIGITS), load(framework, DIGITS, dtype=dtype))
    )

    assert coarse.logits.dtype == np.float32
    assert coarse.cross_attention.dtype == np.float32
    assert np.abs(coarse.logits - exact.logits).max() < 0.05 * np.abs(exact.logits).max()
    np.testing.assert_allclose(coarse.cross_attention.sum(axis=-1), 1, rtol=0, atol=1e-3)
    np.testing.assert_allclose(coarse.cross_attention, exact.cross_attention, rtol=0, atol=0.05)


def test_rows_of_a_beam_have_the_numbers_of_texts_alone(network):
    """Rows branch, change places and end, with the keys and values of their own beginnings."""
    encoder_output, rows = network.encode(features(200)), [list(TEXT[:4])]
    decoder = network.new_decoder(encoder_output)
    decoder.forward(np.array(rows))
    for origins in ([0, 0, 0], [2, 0], [1, 1, 0], [2]):
        decoder.reorder_cache(origins)
        rows = [[*rows[origin], 100 * index + len(rows)] for index, origin in enumerate(origins)]
        output = decoder.forward(np.array([row[-1:] for row in rows]), output_attention=True)

    for index, row in enumerate(rows):
        whole = forward_whole(network, encoder_output, row)
        np.testing.assert_allclose(
            output.logits[index, 0], whole.logits[0, -1], rtol=1e-5, atol=5e-5
        )
        np.testing.assert_allclose(
            output.cross_attention[index, :, 0], whole.cross_attention[0, :, -1], atol=1e-5
        )
