"""The layers on MLX: runs in pieces equal runs in one, and mlx-whisper's own model."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="needs wlk-whisper[mlx]", exc_type=ImportError)

from mlx.utils import tree_flatten  # noqa: E402 -- there only with MLX
from mlx_whisper.whisper import ModelDimensions, Whisper  # noqa: E402 -- there only with MLX

import wlk_whisper  # noqa: E402 -- behind the one that may skip
from wlk_whisper.mlx_checkpoint import load_model  # noqa: E402 -- needs MLX
from wlk_whisper.mlx_device import commands_of  # noqa: E402 -- needs MLX
from wlk_whisper.mlx_network import MlxNetwork  # noqa: E402 -- needs MLX

DIGITS = Path(wlk_whisper.__file__).parent / "digits" / "mlx"
HEADS = ((1, 2), (2, 0), (2, 3), (3, 1))
FRAMES = 240
EXACT = {"rtol": 0, "atol": 1e-5}
TOKENS = st.integers(0, 51864)


@pytest.fixture(scope="module")
def whisper():
    """Return the digits as mlx-whisper's model."""
    return load_model(DIGITS, dtype="float32").whisper


@pytest.fixture(scope="module")
def network(whisper):
    """Return the digits behind the seam."""
    return behind_the_seam(whisper)


@pytest.fixture(scope="module")
def features():
    """Return noise as features of 30 s."""
    return np.random.default_rng(5).normal(0, 0.5, (80, 3000)).astype(np.float32)


@pytest.fixture(scope="module")
def encoded(network, features):
    """Return what the encoder makes of the first 2.4 s."""
    return network.encode(features[:, :FRAMES])


def behind_the_seam(whisper, dtype=mx.float32):
    """Return the network of mlx-whisper's model."""
    return MlxNetwork(whisper, alignment_heads=HEADS, commands=commands_of("cpu"), dtype=dtype)


def shortened(whisper, positions):
    """Return mlx-whisper's model with the same weights and a shorter window."""
    sizes = {**vars(whisper.dims), "n_audio_ctx": positions}
    short = Whisper(ModelDimensions(**sizes), mx.float32)
    short.update(whisper.parameters())
    return short


def whole(network, encoded, tokens):
    """Return one forward over all *tokens*, everything kept."""
    return network.begin(encoded).forward(np.array(tokens), keep=range(len(tokens[0])), attend=True)


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(st.lists(TOKENS, min_size=2, max_size=24), st.data())
def test_a_run_in_pieces_equals_one_over_everything(network, encoded, tokens, data):
    """What is cached stands for what was said: logits and attention are the same."""
    expected = whole(network, encoded, [tokens])
    cuts = sorted({0, len(tokens), *data.draw(st.lists(st.integers(1, len(tokens) - 1)))})
    run = network.begin(encoded)

    for first, behind in pairwise(cuts):
        piece = np.array([tokens[first:behind]])
        given_back = run.forward(piece, keep=range(behind - first), attend=True)

        np.testing.assert_allclose(given_back.logits, expected.logits[:, first:behind], **EXACT)
        np.testing.assert_allclose(
            given_back.attention, expected.attention[:, :, first:behind], **EXACT
        )


@pytest.mark.slow
@pytest.mark.parametrize("frames", [FRAMES, 602, 3000])
def test_logits_and_attention_are_those_of_mlx_whisper(network, whisper, features, frames):
    """Fewer frames are what a model of a shorter window would make of them."""
    tokens = [[50258, 50259, 50359, 50363, 734, 1081, 4, 50257]]
    reference = shortened(whisper, frames // 2)
    logits, looks = reference.forward_with_cross_qk(
        mx.array(features[None, :, :frames].swapaxes(1, 2)), mx.array(tokens)
    )
    ours = whole(network, network.encode(features[:, :frames]), tokens)

    np.testing.assert_allclose(ours.logits, np.array(logits), rtol=0, atol=1e-4)
    for place, (layer, head) in enumerate(HEADS):
        theirs = np.array(mx.softmax(looks[layer][0, head], axis=-1))
        np.testing.assert_allclose(ours.attention[0, place], theirs, **EXACT)


def test_attention_is_a_distribution_over_the_positions_of_every_head(network, encoded):
    """Each new token of each row has a look of each head, and it adds up to one."""
    run = network.begin(encoded)
    run.reorder([0, 0])
    heard = run.forward(np.array([[50258, 50259, 734], [50258, 50259, 1081]]), attend=True)

    assert (2, len(HEADS), 3, FRAMES // 2) == heard.attention.shape
    assert np.float32 == heard.attention.dtype
    np.testing.assert_allclose(heard.attention.sum(axis=-1), 1, **EXACT)


def test_attention_comes_only_where_it_was_asked_for(network, encoded):
    """It costs a transfer."""
    assert network.begin(encoded).forward(np.array([[50258]])).attention is None


def test_logits_are_kept_where_they_were_asked_for(network, encoded):
    """Positions count as indices do, from either end."""
    tokens = np.array([[50258, 50259, 50359, 50363]])
    expected = whole(network, encoded, tokens).logits
    run = network.begin(encoded)
    heard = run.forward(tokens, keep=(0, -2))

    assert np.float32 == heard.logits.dtype
    assert (1, 2, network.vocabulary) == heard.logits.shape
    np.testing.assert_allclose(heard.logits, expected[:, [0, 2]], **EXACT)


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(st.lists(st.lists(TOKENS, min_size=3, max_size=3), min_size=1, max_size=4))
def test_rows_side_by_side_equal_each_alone(network, encoded, rows):
    """A row knows nothing of its neighbours."""
    run = network.begin(encoded)
    run.reorder([0] * len(rows))
    together = run.forward(np.array(rows), keep=range(3), attend=True)

    for index, row in enumerate(rows):
        alone = whole(network, encoded, [row])
        np.testing.assert_allclose(together.logits[index], alone.logits[0], **EXACT)
        np.testing.assert_allclose(together.attention[index], alone.attention[0], **EXACT)


@pytest.mark.slow
@settings(deadline=None, max_examples=15)
@given(
    st.lists(st.lists(TOKENS, min_size=2, max_size=2), min_size=2, max_size=4),
    st.lists(TOKENS, min_size=1, max_size=6),
    st.data(),
)
def test_a_reordered_row_goes_on_from_the_row_it_came_from(network, encoded, rows, next_, data):
    """Rows may be dropped, doubled and added."""
    origins = data.draw(
        st.lists(st.integers(0, len(rows) - 1), min_size=len(next_), max_size=len(next_))
    )
    run = network.begin(encoded)
    run.reorder([0] * len(rows))
    run.forward(np.array(rows))
    run.reorder(origins)
    heard = run.forward(np.array(next_)[:, None], attend=True)

    for index, (origin, token) in enumerate(zip(origins, next_, strict=True)):
        alone = whole(network, encoded, [[*rows[origin], token]])
        np.testing.assert_allclose(heard.logits[index, 0], alone.logits[0, -1], **EXACT)
        np.testing.assert_allclose(heard.attention[index], alone.attention[0][:, -1:], **EXACT)


@pytest.mark.parametrize(
    "shape", [(128, 200), (80, 201), (80, 0), (80, 3002)], ids=["bands", "odd", "none", "too long"]
)
def test_features_of_another_shape_are_refused(network, shape):
    """The message says what is expected and what came."""
    with pytest.raises(ValueError, match=rf"80 bands.*up to 3000, got {shape[0]} and {shape[1]}"):
        network.encode(np.zeros(shape, dtype=np.float32))


@pytest.mark.parametrize("shape", [(2, 1), (1, 0), (1, 447)], ids=["rows", "none", "no room"])
def test_tokens_without_a_place_are_refused_and_change_nothing(network, encoded, shape):
    """The run goes on as if it had not been asked."""
    tokens = [50258, 50259, 734]
    run = network.begin(encoded)
    run.forward(np.array([tokens[:2]]))

    with pytest.raises(ValueError, match="expected tokens of 1 rows and 1 to 446 new positions"):
        run.forward(np.zeros(shape, dtype=np.int64))

    np.testing.assert_allclose(
        run.forward(np.array([tokens[2:]])).logits[:, -1],
        whole(network, encoded, [tokens]).logits[:, -1],
        **EXACT,
    )


@pytest.mark.slow
def test_half_precision_hears_nearly_the_same(encoded, features):
    """The attention of a head moves by little, and still adds up to one."""
    half = behind_the_seam(load_model(DIGITS, dtype="float16").whisper, mx.float16)
    tokens = [[50258, 50259, 50359, 50363, 734]]
    full = behind_the_seam(load_model(DIGITS, dtype="float32").whisper)
    rough = whole(half, half.encode(features[:, :FRAMES]), tokens)
    exact = whole(full, encoded, tokens)

    assert np.float32 == rough.logits.dtype
    np.testing.assert_allclose(rough.attention.sum(axis=-1), 1, rtol=0, atol=1e-3)
    np.testing.assert_allclose(rough.attention, exact.attention, rtol=0, atol=0.05)


def test_the_model_is_only_read(whisper, network, features):
    """Modules, their parameters and the arrays behind them are the same before and after."""

    def identities():
        return [(name, id(array)) for name, array in tree_flatten(whisper.parameters())]

    before = identities()
    whole(network, network.encode(features[:, :FRAMES]), [[50258, 50259]])

    assert before == identities()


def test_the_sizes_are_those_of_the_checkpoint(network):
    """They are what the decoder plans with."""
    assert (80, 51865, 448) == (network.mels, network.vocabulary, network.text_positions)
    assert HEADS == network.alignment_heads
