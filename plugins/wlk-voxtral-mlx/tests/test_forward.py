"""Forward passes are exact: any division into calls yields what one call yields."""

from __future__ import annotations

from functools import partial

from file_layouts import SMALL
import mlx.core as mx
import numpy as np
import pytest

from wlk_conformance.testing import noise
from wlk_frameworks.features import LogMel
from wlk_voxtral_mlx.mlx.forward import EncoderCache, decode, encode
from wlk_voxtral_mlx.mlx.kv_cache import KVCache
from wlk_voxtral_mlx.mlx.weights import build_model

STEP = 1280


@pytest.fixture(scope="module")
def model(random_weights):
    """Return the small model with random weights."""
    return build_model(random_weights, SMALL, dtype=None)


def dense_encoder(model, mel):
    """Return the audio embeddings of all of *mel* in one pass, with the window as a mask."""
    start = EncoderCache.at_start(model)
    window = SMALL.encoder.window
    audio, _ = encode(model, mx.array(mel), start, window=window, downsampling=4)
    return np.array(audio)


def difference(expected, values):
    """Return the largest difference relative to the largest value; a float32 sum rounds by 1e-7."""
    return np.abs(expected - values).max() / np.abs(expected).max()


@pytest.mark.parametrize("steps", [(1,) * 60, (16, 16, 16, 12), (7, 1, 30, 22), (60,)])
def test_the_encoder_does_not_depend_on_the_pieces(model, steps):
    """The embeddings of any pieces equal those of one pass, up to float32 rounding."""
    mel = LogMel()(noise(5.0, level=0.1, seed=2)[: 60 * STEP + 240])
    expected = dense_encoder(model, mel)
    cache, parts, first = EncoderCache.at_start(model), [], 0
    for count in steps:
        piece = mx.array(mel[8 * first : 8 * (first + count)])
        audio, cache = encode(model, piece, cache, window=SMALL.encoder.window, downsampling=4)
        parts.append(np.array(audio))
        first += count

    assert difference(expected, np.concatenate(parts)) < 1e-5
    assert cache.kv_cache.end == 4 * 60


@pytest.mark.parametrize("widths", [(1,) * 70, (20, 30, 20), (3, 1, 16) * 3 + (10,)])
def test_the_decoder_does_not_depend_on_the_width_of_its_passes(model, widths):
    """Beyond the window, the logits equal those of one pass with the window as a mask."""
    rng = np.random.default_rng(4)
    audio = mx.array(rng.standard_normal((70, SMALL.decoder.width)).astype(np.float32))
    ids = rng.integers(0, SMALL.vocabulary, 70).tolist()
    condition = model.time_embedding(mx.array([6.0]))
    window = SMALL.decoder.window
    run = partial(decode, model, condition=condition, window=window)
    expected, _ = run(audio, ids, KVCache())
    kv_cache, parts, first = KVCache(), [], 0
    for width in widths:
        piece = slice(first, first + width)
        logits, kv_cache = run(audio[piece], ids[piece], kv_cache)
        parts.append(np.array(logits))
        first += width

    assert difference(np.array(expected), np.concatenate(parts)) < 1e-5
    assert kv_cache.end == 70


@pytest.mark.slow
def test_transformers_computes_the_same_logits(write, model, tmp_path):
    """The same weights and features give the same logits, beyond both windows."""
    torch = pytest.importorskip("torch", reason="pip install torch transformers")
    transformers = pytest.importorskip("transformers", reason="pip install torch transformers")
    directory = write(tmp_path / "hf", "transformers")
    reference = transformers.VoxtralRealtimeForConditionalGeneration.from_pretrained(
        directory, dtype=torch.float32
    )
    mel = LogMel()(noise(5.0, level=0.1, seed=8)[: 60 * STEP + 240])
    ids = np.random.default_rng(9).integers(0, SMALL.vocabulary, 60).tolist()
    with torch.inference_mode():
        expected = reference(
            input_ids=torch.tensor([ids]),
            input_features=torch.from_numpy(mel.T[None]),
            num_delay_tokens=6,
        ).logits[0]
    audio = mx.array(dense_encoder(model, mel))
    logits, _ = decode(
        model,
        audio,
        ids,
        KVCache(),
        condition=model.time_embedding(mx.array([6.0])),
        window=SMALL.decoder.window,
    )

    assert difference(expected.numpy(), np.array(logits)) < 1e-5
