"""Streams whose steps are taken together get what each of them gets alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import threading

import numpy as np
import pytest
import torch

from wlk_conformance import EngineFaults
from wlk_conformance.testing import StreamDriver, connected_digits, noise
from wlk_core.streaming import LogMel
from wlk_voxtral.engine import DecodeRequest

STREAMS = 5


def run(backend, audio, *, chunk_seconds=0.24):
    """Return the tokens of a stream."""
    driver = StreamDriver(backend.create_processor())
    driver.feed(audio, chunk_seconds=chunk_seconds)
    driver.finish()
    return driver.tokens


def run_together(backend, audios):
    """Run a stream in a thread for each audio, in batches of all that go on."""
    calls, ending = EngineFaults.of(backend.engine_calls), threading.Lock()

    def run_one(audio):
        try:
            return run(backend, audio)
        finally:
            with ending:
                calls.together -= 1

    calls.together = len(audios)
    try:
        with ThreadPoolExecutor(len(audios)) as threads:
            return list(threads.map(run_one, audios))
    finally:
        calls.together = 0


@pytest.fixture(scope="module")
def audios():
    """Return digits of several speakers and lengths."""
    return [connected_digits(2 + seed % 3, seed=seed).audio for seed in range(STREAMS)]


@pytest.fixture(scope="module")
def solo(backend, audios):
    """Return the tokens of each stream alone."""
    return [run(backend, audio) for audio in audios]


@pytest.mark.slow
def test_streams_in_batches_have_the_tokens_of_their_solo_runs(backend, audios, solo):
    """Words, times and probabilities are equal, in a fraction of the runs."""
    calls = backend.engine_calls
    count, runs = calls.count, calls.batch_count
    for tokens, expected in zip(run_together(backend, audios), solo, strict=True):
        assert expected == rounded(tokens, expected)
    assert min(map(len, solo)) > 0
    assert (calls.count - count) / (calls.batch_count - runs) > STREAMS / 2


def rounded(tokens, expected):
    """Return *expected* if *tokens* differ from it by the rounding of their probabilities only."""
    is_close = len(tokens) == len(expected) and all(
        (token.text, token.start, token.end) == (other.text, other.start, other.end)
        and abs(token.probability - other.probability) < 1e-3
        for token, other in zip(tokens, expected, strict=True)
    )
    return expected if is_close else tokens


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
