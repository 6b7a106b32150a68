"""Streams whose steps are taken together get what each of them gets alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from wlk_conformance.testing import noise
from wlk_core.streaming import LogMel
from wlk_voxtral.engine import DecodeRequest


@pytest.mark.slow
def test_rows_of_any_lengths_delays_and_drafts_equal_single_calls(lively):
    """Each row attends to its own positions, over a stretch longer than both windows."""
    chance = np.random.default_rng(5)
    mels = [LogMel()(noise(9.0, level=0.1, seed=seed)) for seed in range(4)]
    options = [(3, 8), (6, 1), (10, 8), (6, 8)]
    states, alone, starts = [None] * 4, [None] * 4, [0] * 4
    ids, expected = [[] for _ in range(4)], [[] for _ in range(4)]
    while min(starts) < 100:
        rows = sorted(chance.choice(4, chance.integers(1, 5), replace=False))
        counts = {row: int(chance.integers(1, 8)) for row in rows if starts[row] < 100}
        requests = [
            request(mels[row], starts[row], n, states[row], options[row])
            for row, n in counts.items()
        ]
        if not requests:
            continue
        for row, answer in zip(counts, lively.decode_batch(requests), strict=True):
            ids[row] += [prediction.id for prediction in answer[0]]
            states[row] = answer[1]
        for row, n in counts.items():
            single = request(mels[row], starts[row], n, alone[row], options[row])
            ((predictions, alone[row], _),) = lively.decode_batch([single])
            expected[row] += [prediction.id for prediction in predictions]
            starts[row] += n

    assert expected == ids
    assert len({token for row in ids for token in row}) > 4
    for state, other in zip(states, alone, strict=True):
        for layer, same in zip(other.kv_cache.layers, state.kv_cache.layers, strict=True):
            torch.testing.assert_close(layer[0], same[0], rtol=1e-5, atol=3e-5)


def request(mel, start, steps, state, options):
    """Return the request of so many steps."""
    delay_steps, draft_steps = options
    return DecodeRequest(
        mel=mel[8 * start : 8 * (start + steps)],
        state=state,
        delay_steps=delay_steps,
        draft_steps=draft_steps,
    )
