"""The layers on MLX: passes in pieces equal one pass, and mlx-whisper's own model."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="needs wlk-whisper[mlx]", exc_type=ImportError)

from mlx_whisper.whisper import ModelDimensions, Whisper  # noqa: E402 -- only with MLX

from wlk_core.frameworks.mlx import shared_stream  # noqa: E402 -- needs MLX
from wlk_whisper.mlx.checkpoint import load_model  # noqa: E402 -- needs MLX
from wlk_whisper.mlx.network import MlxNetwork  # noqa: E402 -- needs MLX
from wlk_whisper_digits import checkpoint_directory  # noqa: E402 -- as above

DIGITS = checkpoint_directory()
HEADS = ((1, 2), (2, 0), (2, 3), (3, 1))
STREAM = shared_stream("cpu", install_hint="")
MEL_FRAMES = 240
EXACT = {"rtol": 0, "atol": 1e-5}
TOKENS = st.integers(0, 51864)


@pytest.fixture(scope="module")
def whisper():
    """Return the digits as mlx-whisper's model."""
    return load_model(DIGITS, dtype=mx.float32).whisper


@pytest.fixture(scope="module")
def network(whisper):
    """Return the network of the digits."""
    return make_network(whisper)


@pytest.fixture(scope="module")
def features():
    """Return noise as features of 30 s."""
    return np.random.default_rng(5).normal(0, 0.5, (80, 3000)).astype(np.float32)


@pytest.fixture(scope="module")
def encoder_output(network, features):
    """Return the encoder output of the first 2.4 s."""
    return network.encode(features[:, :MEL_FRAMES])


def make_network(whisper, dtype=mx.float32):
    """Return the network of mlx-whisper's model."""
    return MlxNetwork(whisper, alignment_heads=HEADS, stream=STREAM, dtype=dtype)


def with_shorter_window(whisper, encoder_frames):
    """Return mlx-whisper's model with the same weights and a shorter window."""
    sizes = {**vars(whisper.dims), "n_audio_ctx": encoder_frames}
    short = Whisper(ModelDimensions(**sizes), mx.float32)
    short.update(whisper.parameters())
    return short


def forward_whole(network, encoder_output, tokens):
    """Return one forward pass over all *tokens*, with all logits and attention."""
    return network.new_decoder(encoder_output).forward(
        np.array(tokens), logits_to_keep=range(len(tokens[0])), output_attention=True
    )


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(st.lists(TOKENS, min_size=2, max_size=24), st.data())
def test_a_text_in_pieces_gives_the_numbers_of_one_pass(network, encoder_output, tokens, data):
    """The KV cache loses nothing: logits and attention equal a full recomputation."""
    expected = forward_whole(network, encoder_output, [tokens])
    cuts = sorted({0, len(tokens), *data.draw(st.lists(st.integers(1, len(tokens) - 1)))})
    decoder = network.new_decoder(encoder_output)

    for first, stop in pairwise(cuts):
        piece = np.array([tokens[first:stop]])
        output = decoder.forward(piece, logits_to_keep=range(stop - first), output_attention=True)

        np.testing.assert_allclose(output.logits, expected.logits[:, first:stop], **EXACT)
        np.testing.assert_allclose(
            output.cross_attention, expected.cross_attention[:, :, first:stop], **EXACT
        )


@pytest.mark.slow
@pytest.mark.parametrize("frames", [MEL_FRAMES, 602, 3000])
def test_logits_and_attention_are_those_of_mlx_whisper(network, whisper, features, frames):
    """Fewer mel frames give the numbers of a model with a shorter window."""
    tokens = [[50258, 50259, 50359, 50363, 734, 1081, 4, 50257]]
    reference = with_shorter_window(whisper, frames // 2)
    logits, cross_qk = reference.forward_with_cross_qk(
        mx.array(features[None, :, :frames].swapaxes(1, 2)), mx.array(tokens)
    )
    output = forward_whole(network, network.encode(features[:, :frames]), tokens)

    np.testing.assert_allclose(output.logits, np.array(logits), rtol=0, atol=1e-4)
    for index, (layer, head) in enumerate(HEADS):
        expected = np.array(mx.softmax(cross_qk[layer][0, head], axis=-1))
        np.testing.assert_allclose(output.cross_attention[0, index], expected, **EXACT)


def test_a_padded_window_goes_on_with_the_encoder_output_of_silence(network, features):
    """The decoder attends to the frames of the audio, then to those of a window of silence."""
    audio, padded = (
        network.encode(features[:, :MEL_FRAMES], is_padded=padded) for padded in (False, True)
    )

    assert network.silence.frames == padded.frames
    for own, silent, joined in zip(
        audio.cross_kv, network.silence.cross_kv, padded.cross_kv, strict=True
    ):
        for part in range(2):
            first = audio.frames
            assert mx.array_equal(own[part], joined[part][:, :, :first])
            assert mx.array_equal(silent[part][:, :, first:], joined[part][:, :, first:])


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(
    st.lists(st.lists(TOKENS, min_size=2, max_size=2), min_size=2, max_size=4),
    st.lists(TOKENS, min_size=1, max_size=6),
    st.data(),
)
def test_a_reordered_row_continues_from_its_origin(network, encoder_output, rows, next_, data):
    """Rows may be dropped, doubled and added."""
    origins = data.draw(
        st.lists(st.integers(0, len(rows) - 1), min_size=len(next_), max_size=len(next_))
    )
    decoder = network.new_decoder(encoder_output)
    decoder.reorder_cache([0] * len(rows))
    decoder.forward(np.array(rows))
    decoder.reorder_cache(origins)
    output = decoder.forward(np.array(next_)[:, None], output_attention=True)

    for index, (origin, token) in enumerate(zip(origins, next_, strict=True)):
        alone = forward_whole(network, encoder_output, [[*rows[origin], token]])
        np.testing.assert_allclose(output.logits[index, 0], alone.logits[0, -1], **EXACT)
        np.testing.assert_allclose(
            output.cross_attention[index], alone.cross_attention[0][:, -1:], **EXACT
        )


@pytest.mark.slow
def test_half_precision_stays_close(encoder_output, features):
    """The attention of a head differs by little, and still sums to one."""
    half = make_network(load_model(DIGITS, dtype=mx.float16).whisper, mx.float16)
    tokens = [[50258, 50259, 50359, 50363, 734]]
    full = make_network(load_model(DIGITS, dtype=mx.float32).whisper)
    coarse = forward_whole(half, half.encode(features[:, :MEL_FRAMES]), tokens)
    exact = forward_whole(full, encoder_output, tokens)

    assert np.float32 == coarse.logits.dtype
    np.testing.assert_allclose(coarse.cross_attention.sum(axis=-1), 1, rtol=0, atol=1e-3)
    np.testing.assert_allclose(coarse.cross_attention, exact.cross_attention, rtol=0, atol=0.05)
