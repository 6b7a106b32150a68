"""Streams whose steps are taken together get what each of them gets alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import threading

import numpy as np
import pytest
import torch
from transformers import VoxtralRealtimeForConditionalGeneration

from wlk_conformance import EngineFaults
from wlk_conformance.testing import StreamDriver, connected_digits, noise
from wlk_core.plugins import BackendError
from wlk_core.streaming import LogMel
from wlk_voxtral.engine import DecodeRequest, VoxtralEngine
from wlk_voxtral_hf.torch.network import TorchNetwork

STREAMS = 5


def run(backend, audio, *, chunk_seconds=0.24):
    """Return the tokens of a stream, and the number of its calls that were repeated."""
    driver, faults = StreamDriver(backend.create_processor()), 0
    for start in range(0, len(audio), round(chunk_seconds * 16_000)):
        driver.insert(audio[start : start + round(chunk_seconds * 16_000)])
        faults += repeated(driver.drain)
    faults += repeated(driver.finish)
    return driver.tokens, faults


def repeated(call):
    """Make the call, again if it fails; return how often it failed."""
    try:
        call()
    except BackendError:
        call()
        return 1
    return 0


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
    return [run(backend, audio)[0] for audio in audios]


@pytest.mark.slow
def test_streams_in_batches_have_the_tokens_of_their_solo_runs(backend, audios, solo):
    """Words, times and probabilities are equal, in a fraction of the runs."""
    calls = backend.engine_calls
    count, runs = calls.count, calls.batch_count
    results = run_together(backend, audios)

    assert [(tokens, 0) for tokens in solo] == [
        (rounded(tokens, expected), faults)
        for (tokens, faults), expected in zip(results, solo, strict=True)
    ]
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
@pytest.mark.parametrize("seam", ["fail_before", "fail_after"])
def test_a_call_that_fails_in_a_batch_is_repeated_by_its_stream(backend, audios, solo, seam):
    """The other streams of the batch do not notice it."""
    calls = EngineFaults.of(backend.engine_calls)
    setattr(calls, seam, frozenset({calls.count + 12}))
    try:
        results = run_together(backend, audios)
    finally:
        setattr(calls, seam, frozenset())

    assert 1 == sum(faults for _, faults in results)
    for (tokens, _), expected in zip(results, solo, strict=True):
        assert expected == rounded(tokens, expected)


@pytest.mark.slow
def test_an_engine_that_fails_for_a_batch_runs_each_call_alone(backend, audios, solo, monkeypatch):
    """Memory that suffices for one stream only costs time, and no words."""
    network = backend.engine.network
    forward_batch = network.forward_batch

    def one_at_a_time(rows):
        if len(rows) > 1:
            raise torch.OutOfMemoryError(f"no room for {len(rows)} rows")
        return forward_batch(rows)

    monkeypatch.setattr(network, "forward_batch", one_at_a_time)
    results = run_together(backend, audios[:3])

    for (tokens, faults), expected in zip(results, solo, strict=False):
        assert (expected, 0) == (rounded(tokens, expected), faults)


@pytest.fixture(scope="module")
def lively(backend):
    """Return an engine with random weights whose predictions have many values."""
    settings = backend.engine.settings
    generator = torch.Generator().manual_seed(4)
    model = VoxtralRealtimeForConditionalGeneration(backend.engine.network.model.config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.normal_(0, weight[0].numel() ** -0.5, generator=generator)
            if "linear_2" in name:
                weight.mul_(8)
    model.requires_grad_(False)
    return VoxtralEngine(TorchNetwork(model, eos_id=settings.tokenizer.eos_id), settings)


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


def test_streams_that_begin_together_share_nothing_but_the_opening(backend):
    """The same request twice in a batch gives the same answer twice, and again alone."""
    mel = LogMel()(noise(1.0, level=0.1, seed=7)[: 8 * 1280 + 240])
    same = request(mel, 0, 4, None, (6, 8))
    first, second = backend.engine.decode_batch([same, same])
    (alone,) = backend.engine.decode_batch([same])

    for answer in (second, alone):
        for layer, other in zip(first[1].kv_cache.layers, answer[1].kv_cache.layers, strict=True):
            torch.testing.assert_close(layer[0], other[0], rtol=1e-5, atol=2e-5)
    assert first[1].nbytes == second[1].nbytes == alone[1].nbytes
