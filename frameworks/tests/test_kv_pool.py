"""Attention in a batch equals that of each row alone, and caches in a pool are immutable."""

from __future__ import annotations

import gc

import attrs
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

from torch.nn import functional  # noqa: E402 -- needs torch

from wlk_frameworks.kv_pool import (  # noqa: E402 -- needs torch
    LEAST_GROWTH,
    AttentionPass,
    KVPool,
)

HEADS, SIZE = 2, 4
SCALE = SIZE**-0.5
WINDOWS = st.sampled_from([2, 40, 1 << 40])


def new_pool(window):
    """Return a pool for one layer."""
    return KVPool(
        layers=1,
        heads=HEADS,
        size=SIZE,
        window=window,
        device=torch.device("cpu"),
        dtype=torch.float32,
    )


@attrs.define
class Branch:
    """A cache, and the queries, keys and values of all its positions, [3, positions, ...]."""

    cache: object
    history: object


def extend(pool, branches, counts, generator):
    """Extend the caches by new positions in one pass; return the new branches."""
    attention = AttentionPass.of(pool, [branch.cache for branch in branches], counts)
    new = torch.randn(3, sum(counts), HEADS, SIZE, generator=generator)
    mixed = attention.mix(0, *new, scale=SCALE).split(counts)
    parts = zip(branches, attention.caches, new.split(counts, dim=1), strict=True)
    extended = [
        Branch(cache, torch.cat((branch.history, part), dim=1)) for branch, cache, part in parts
    ]
    for branch, part in zip(extended, mixed, strict=True):
        expected = attended(branch.history, pool.window)[-len(part) :]
        torch.testing.assert_close(expected, part, rtol=1e-5, atol=1e-5)
    return extended


def attended(history, window):
    """Return the attention of a row over its own positions, [positions, heads * size]."""
    queries, keys, values = history.transpose(1, 2)
    ages = torch.arange(history.shape[1])[:, None] - torch.arange(history.shape[1])
    mixed = functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=(ages >= 0) & (ages < window), scale=SCALE
    )
    return mixed.transpose(0, 1).flatten(1)


@given(WINDOWS, st.integers(0, 2**32), st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_any_branches_of_any_caches_keep_their_values(window, seed, actions):
    """Repeating, forking, truncating or dropping a call leaves every other cache unchanged."""
    chance, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    pool = new_pool(window)
    branches = [Branch(pool.new_cache(), torch.zeros(3, 0, HEADS, SIZE))]
    for action in actions:
        chosen = [branches[i] for i in chance.integers(len(branches), size=chance.integers(1, 4))]
        counts = chance.integers(1, 31, size=len(chosen)).tolist()
        extended = extend(pool, chosen, counts, generator)
        if action == 0:
            continue  # the call failed, and its caches are dropped
        if action == 1:
            for branch, count in zip(extended, counts, strict=True):
                dropped = int(chance.integers(0, count + 1))
                branch.cache = branch.cache.truncated(dropped)
                branch.history = branch.history[:, : branch.history.shape[1] - dropped]
        if action == 2:
            branches = branches[-1:]
        branches = (branches + extended)[-6:]
        for branch in branches:
            numbers = torch.from_numpy(branch.cache.numbers[-(window - 1) :])[None]
            held = pool.gathered(0, numbers)[0].permute(1, 2, 0, 3)
            kept = branch.history[1:, -(min(window, 1 << 20) - 1) :].transpose(1, 2)
            assert torch.equal(kept, held)


def test_places_are_used_again():
    """An endless stream holds only the places of its window and gives back all others."""
    generator, window = torch.Generator().manual_seed(1), 40
    pool = new_pool(window)
    branch = Branch(pool.new_cache(), torch.zeros(3, 0, HEADS, SIZE))
    for _ in range(200):
        (branch,) = extend(pool, [branch], [7], generator)
    gc.collect()

    assert pool.capacity == 1 + LEAST_GROWTH
    assert len(branch.cache.places) == window - 1 + 7
    assert branch.cache.nbytes == len(branch.cache.places) * pool.position_bytes
    assert len(branch.cache.places) + len(pool.free) == pool.capacity - 1


def test_no_row_reads_what_another_one_left():
    """Not even NaN is read in reused places; `extend` compares each row with the row alone."""
    pool, generator = new_pool(40), torch.Generator().manual_seed(1)
    empty = [Branch(pool.new_cache(), torch.zeros(3, 0, HEADS, SIZE)) for _ in range(3)]
    left = AttentionPass.of(pool, [branch.cache for branch in empty], [80, 80, 80])
    left.mix(0, *torch.full((3, 240, HEADS, SIZE), torch.nan), scale=SCALE)
    del left
    gc.collect()
    capacity = pool.capacity

    extend(pool, extend(pool, empty, [1, 20, 7], generator), [3, 1, 5], generator)
    assert pool.capacity == capacity
