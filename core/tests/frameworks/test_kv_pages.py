"""Caches in pages of one pool are values: nothing that a cache contains is overwritten."""

from __future__ import annotations

import gc

import attrs
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

from wlk_core.frameworks.kv_pages import FIRST_PAGES, PAGE, PagePool  # noqa: E402 -- needs torch

WINDOW = 40


def new_pool(window=WINDOW):
    """Return a pool of two layers with one head of size 2."""
    return PagePool(
        layers=2, heads=1, size=2, window=window, device=torch.device("cpu"), dtype=torch.float32
    )


@attrs.define
class Branch:
    """A cache, and the values that it must contain."""

    cache: object
    values: list


def write(pool, branches, counts, fresh):
    """Extend the caches together by new values; return the new branches."""
    caches = pool.extended([branch.cache for branch in branches], counts)
    extended = []
    for branch, cache, count in zip(branches, caches, counts, strict=True):
        values = [next(fresh) for _ in range(count)]
        places = torch.tensor(
            [
                cache.pages[(p - cache.start) // PAGE].number * PAGE + p % PAGE
                for p in range(branch.cache.positions, cache.positions)
            ]
        )
        numbers = torch.tensor(values, dtype=torch.float32)[:, None, None].expand(-1, 1, 2)
        for layer in range(pool.layers):
            pool.write(layer, places, numbers + layer, -numbers)
        extended.append(Branch(cache, branch.values + values))
    return extended


def contents(branch):
    """Return the values that a cache contains, checked in both layers."""
    (keys, values), (more_keys, _) = branch.cache.layers
    torch.testing.assert_close(keys, -values)
    torch.testing.assert_close(keys + 1, more_keys)
    return keys[0, 0, :, 0].tolist()


def expected(branch):
    """Return the values of the window."""
    return [float(value) for value in branch.values[-(WINDOW - 1) :]]


@given(st.integers(0, 2**32), st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_any_branches_of_any_caches_keep_their_values(seed, actions):
    """Repeated, forked, truncated and dropped calls leave every other cache as it is."""
    chance = np.random.default_rng(seed)
    pool, fresh = new_pool(), iter(range(1, 100_000))
    branches = [Branch(pool.new_cache(), [])]
    for action in actions:
        chosen = [branches[i] for i in chance.integers(len(branches), size=chance.integers(1, 4))]
        counts = chance.integers(1, 31, size=len(chosen)).tolist()
        extended = write(pool, chosen, counts, fresh)
        if action == 0:
            continue  # the call failed, and its caches are dropped
        if action == 1:
            for index, count in enumerate(counts):
                dropped = int(chance.integers(0, count + 1))
                branch = extended[index]
                values = branch.values[: len(branch.values) - dropped]
                extended[index] = Branch(pool.truncated(branch.cache, dropped), values)
        if action == 2:
            branches = branches[-1:]
        branches = (branches + extended)[-6:]
        for branch in branches:
            assert expected(branch) == contents(branch)


def test_pages_are_used_again():
    """A stream that goes on for ever has the pages of its window, and gives back the others."""
    pool, fresh = new_pool(), iter(range(1, 100_000))
    branch = Branch(pool.new_cache(), [])
    for _ in range(200):
        (branch,) = write(pool, [branch], [7], fresh)
    gc.collect()

    assert expected(branch) == contents(branch)
    assert 1 + FIRST_PAGES == pool.capacity
    assert len(branch.cache.pages) <= WINDOW // PAGE + 2
    assert len(branch.cache.pages) * pool.page_bytes == branch.cache.nbytes
    assert pool.capacity - 1 == len(branch.cache.pages) + len(pool.free)


def test_a_page_that_is_used_again_is_empty():
    """No stream reads what another one left, not even values that are not numbers."""
    pool, fresh = new_pool(), iter([float("nan")] * 400)
    write(pool, [Branch(pool.new_cache(), [])] * 16, [PAGE] * 16, fresh)
    gc.collect()
    (branch,) = write(pool, [Branch(pool.new_cache(), [])], [1], iter([5]))
    page = torch.tensor([branch.cache.pages[0].number])

    assert 10.0 == pool.gathered(0, page, rows=1)[:, :, 0].sum().item()


@pytest.mark.parametrize("window", [2, PAGE, PAGE + 1, 1 << 40])
def test_any_window_keeps_one_position_less(window):
    """A query attends to itself, too."""
    pool, fresh = new_pool(window), iter(range(1, 100_000))
    branch = Branch(pool.new_cache(), [])
    for count in (1, 5, 20, 3):
        (branch,) = write(pool, [branch], [count], fresh)

    assert [float(v) for v in branch.values[-min(29, window - 1) :]] == contents(branch)
