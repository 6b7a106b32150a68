"""Caches written in place hold what concatenation would, in memory that stays bounded."""

from __future__ import annotations

import attrs
from file_layouts import SMALL
import mlx.core as mx
from mlx.utils import tree_flatten
import numpy as np
import pytest

from wlk_frameworks.mlx import shared_stream
from wlk_voxtral.network import DecoderRow
from wlk_voxtral_mlx.mlx.forward import EncoderCache
from wlk_voxtral_mlx.mlx.kv_cache import KVCache
from wlk_voxtral_mlx.mlx.modules import Voxtral
from wlk_voxtral_mlx.mlx.network import AudioSteps, MlxNetwork

LAYERS = 2
LIFTED = 12 * 10**9  # bytes that MLX may keep, as on a machine with a GPU


@pytest.fixture
def lifted_limit(monkeypatch):
    """
    Let MLX keep whatever is freed, as it does where memory is large.

    Freed memory is compared with the memory in use only, because the model of these tests is small.
    """
    monkeypatch.setattr("wlk_frameworks.mlx.KEPT_BYTES", 0)
    before = mx.set_cache_limit(LIFTED)
    mx.clear_cache()
    yield
    mx.set_cache_limit(before)


@attrs.frozen(eq=False)
class Reference:
    """A cache, and the numbers at all of its positions."""

    cache: KVCache
    numbers: tuple[int, ...] = ()

    def extended(self, fresh, *, window, planned=0):
        """Write *fresh* numbers to a longer cache, and check what they attend to."""
        extension = self.cache.extended(len(fresh), window=window, planned=planned)
        numbers = (*self.numbers, *fresh)
        visible = numbers[max(0, len(self.numbers) - (window - 1)) :]
        for index in range(LAYERS):
            keys = mx.array([float(number) for number in fresh]).reshape(1, 1, -1, 1) + index
            keys, values = extension.write(index, keys, -keys)

            assert keys.flatten().tolist() == [number + index for number in visible]
            assert values.tolist() == (-keys).tolist()
        mx.eval(extension.cache.arrays)
        assert extension.visible == len(visible)
        return Reference(extension.cache, numbers)

    def shortened(self, count):
        """Drop the last *count* positions."""
        self.cache.drop(count)
        return Reference(self.cache, self.numbers[: len(self.numbers) - count])


@pytest.mark.parametrize("window", [2, 5, 20, 64])
@pytest.mark.parametrize("seed", range(4))
def test_a_cache_holds_what_concatenation_would(window, seed):
    """Passes of any width, repeated calls, drafts, resets and streams in a batch change nothing."""
    rng = np.random.default_rng(seed)
    opening = Reference(KVCache()).extended(range(7), window=window)
    streams = [opening] * 3
    number = 100
    for _ in range(150):
        index = int(rng.integers(len(streams)))
        before = reached = streams[index]
        planned = int(rng.integers(0, 30))
        for _ in range(int(rng.integers(1, 4))):  # the passes of a call
            width = int(rng.integers(1, 20))
            reached = reached.extended(
                range(number, number + width), window=window, planned=planned
            )
            number += width
            if rng.random() < 0.3:
                reached = reached.shortened(int(rng.integers(0, width)))
        outcome = rng.random()
        if outcome < 0.7:
            streams[index] = reached
        elif outcome < 0.8:
            streams[index] = opening  # the next utterance
        else:
            streams[index] = before  # the call failed, and is repeated


def test_a_pass_writes_to_the_memory_of_the_cache_before_it():
    """Nothing is copied while one stream goes on."""
    first = Reference(KVCache()).extended(range(20), window=64)
    arrays = first.cache.arrays
    second = first.extended([20], window=64)

    assert all(a is b for a, b in zip(arrays, second.cache.arrays, strict=True))


def test_positions_taken_by_another_cache_are_not_overwritten():
    """Two streams that continue from the same cache each have their own positions."""
    opening = Reference(KVCache()).extended(range(20), window=64)
    one = opening.extended([100], window=64)
    other = opening.extended([200], window=64)

    assert one.extended([101], window=64).numbers[-2:] == (100, 101)
    assert other.extended([201], window=64).numbers[-2:] == (200, 201)
    assert opening.extended([300], window=64).numbers[-2:] == (19, 300)


def test_positions_of_a_dropped_draft_are_written_again():
    """A pass that was cut, and is still referenced, does not force a copy of the window."""
    draft = Reference(KVCache()).extended(range(20), window=64)
    arrays = draft.cache.arrays
    kept = draft.shortened(5)
    after = kept.extended([100], window=64)

    assert after.numbers == (*range(15), 100)
    assert all(a is b for a, b in zip(arrays, after.cache.arrays, strict=True))


def test_a_pass_allocates_no_second_copy_of_a_layer():
    """MLX writes the new positions into the arrays, because nothing else refers to them."""
    cache = KVCache()
    for width in (4000, 1):
        mx.reset_peak_memory()
        used = mx.get_active_memory()
        extension = cache.extended(width, window=8192)
        for index in range(LAYERS):
            rows = mx.zeros((1, 2, width, 64))
            mx.eval(extension.write(index, rows, rows)[0][:, :, -1])
        cache = extension.cache
        mx.eval(cache.arrays)

    assert mx.get_peak_memory() - used < cache.nbytes / (4 * LAYERS)


def run_decoder(*parts):
    """
    Decode passes with a window of 8192 and random weights; each part is a list of widths.

    Returns, after each part, the bytes that MLX holds, those of the weights and those of the cache.
    """
    stack = attrs.evolve(SMALL.decoder, layers=4, heads=2, key_heads=2, head_size=64, window=8192)
    config = attrs.evolve(SMALL, decoder=stack)
    model = Voxtral(config)
    weights = [array for _, array in tree_flatten(model.parameters())]
    weight_bytes = sum(array.nbytes for array in weights)
    stream = shared_stream("cpu", install_hint="")
    network = MlxNetwork(model, config, eos_id=2, stream=stream)
    with stream.acquire():
        audio = AudioSteps(
            embeddings=mx.zeros((64, stack.width)),
            condition=model.time_embedding(mx.array([6.0])),
            encoder_cache=EncoderCache.at_start(model),
        )
        mx.eval(weights, audio.embeddings, audio.condition, audio.encoder_cache.arrays)
    mx.clear_cache()
    used_by_others = mx.get_active_memory() - weight_bytes
    measured, kv_cache, position = [], None, 0
    for widths in parts:
        for width in widths:
            row = DecoderRow(
                token_ids=[1] * width,
                audio=audio,
                first=64 - width,
                kv_cache=kv_cache,
                position=position,
            )
            with network.running():
                (result,) = network.forward_batch([row])
            kv_cache = result.kv_cache
            position += width
        held = mx.get_active_memory() - used_by_others + mx.get_cache_memory()
        measured.append((held, weight_bytes, kv_cache.nbytes))
    return measured


def test_memory_grows_with_the_counted_state(lifted_limit):
    """After 20 s, far from the window, MLX holds no more than 1.2 x weights and KV cache."""
    ((held, weights, state),) = run_decoder([1] * 250)

    assert state == 256 * 4 * 2 * 2 * 64 * 4
    assert held <= 1.2 * (weights + state)


@pytest.mark.slow
def test_a_long_utterance_holds_no_more_than_its_window(lifted_limit):
    """After ten minutes, and when the window is full, MLX holds 1.2 x weights and KV cache."""
    ten_minutes, full = [64] * 117 + [1] * 12, [64] * 11 + [1] * 260
    measured = run_decoder(ten_minutes, full)

    assert [state for _, _, state in measured] == [
        positions * 4 * 2 * 2 * 64 * 4 for positions in (7680, 8448)
    ]
    for held, weights, state in measured:
        assert held <= 1.2 * (weights + state)
