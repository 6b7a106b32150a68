"""Attention of rows in one pass equals that of each row alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

from torch.nn import functional  # noqa: E402 -- needs torch

from wlk_core.frameworks.kv_pages import PagePool  # noqa: E402 -- needs torch
from wlk_core.frameworks.packed_attention import AttentionPass, Packing  # noqa: E402 -- needs torch

HEADS, SIZE = 2, 4
SCALE = SIZE**-0.5

counts = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(counts)
def test_a_padded_tensor_packs_to_what_it_was(lengths):
    """Rows of any lengths come back in their order, and what follows a shorter row is zero."""
    packing = Packing.of(lengths, torch.device("cpu"))
    packed = 1 + torch.arange(sum(lengths) * 2).reshape(-1, 2)
    padded = packing.pad(packed)

    assert (len(lengths), max(lengths), 2) == tuple(padded.shape)
    assert packed.tolist() == packing.pack(padded).tolist()
    for row, length in zip(padded, lengths, strict=True):
        assert not row[length:].any()


@given(st.lists(counts, min_size=1, max_size=5), st.integers(0, 2**32))
def test_each_row_attends_to_its_own_positions(passes, seed):
    """Rows that come and go, of any lengths, equal causal attention over each row alone."""
    generator = torch.Generator().manual_seed(seed)
    pool = PagePool(
        layers=1,
        heads=HEADS,
        size=SIZE,
        window=1 << 40,
        device=torch.device("cpu"),
        dtype=torch.float32,
    )
    rows = max(map(len, passes))
    caches = [pool.new_cache() for _ in range(rows)]
    history = [torch.zeros(3, 0, HEADS, SIZE) for _ in range(rows)]
    for lengths in passes:
        attention = AttentionPass.of(pool, caches[: len(lengths)], lengths)
        new = torch.randn(3, sum(lengths), HEADS, SIZE, generator=generator)
        mixed = attention.mix(0, *new, scale=SCALE).split(lengths)
        caches[: len(lengths)] = attention.caches
        for row, part in enumerate(new.split(lengths, dim=1)):
            history[row] = torch.cat((history[row], part), dim=1)
            queries, keys, values = history[row].transpose(1, 2)
            whole = functional.scaled_dot_product_attention(
                queries[None], keys[None], values[None], is_causal=True, scale=SCALE
            )
            expected = whole[0].transpose(0, 1).flatten(1)[-lengths[row] :]

            torch.testing.assert_close(expected, mixed[row], rtol=1e-5, atol=1e-5)
