"""Streaming is exact: whatever the pieces, the outcome is that of the whole."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
import threading

import mlx.core as mx
import numpy as np
import pytest

from wlk_core import BackendError, OnlineStream, load_backend
from wlk_core.streaming import LogMel
from wlk_core.testing import StreamDriver, connected_digits, load_clip, noise
from wlk_voxtral.recognizer import VoxtralRecognizer
from wlk_voxtral_mlx.engine import _Pass
from wlk_voxtral_mlx.forward import EncoderState, decode, encode, shortened
from wlk_voxtral_mlx.weights import build

CELL = 1280


@pytest.fixture(scope="module")
def model(random_weights, small):
    """Return the small model of random weights."""
    return build(random_weights, small, dtype=None)


@pytest.fixture(scope="module")
def lively(write, tmp_path_factory):
    """Return a backend of the small model."""
    directory = write(tmp_path_factory.mktemp("lively") / "model", "voxmlx")
    with load_backend("voxtral-mlx", str(directory)) as loaded:
        yield loaded


def dense_encoder(model, small, mel):
    """Return the audio embeddings of all of *mel* at once, with the window as a mask."""
    start = EncoderState.at_start(model)
    window = small.encoder.window
    audio, _ = encode(model, mx.array(mel), start, window=window, downsampling=4)
    return np.array(audio)


def apart(expected, came):
    """Return the largest difference against the largest value: float32 rounding is 1e-7 a sum."""
    return np.abs(expected - came).max() / np.abs(expected).max()


@pytest.mark.parametrize("cells", [(1,) * 60, (16, 16, 16, 12), (7, 1, 30, 22), (60,)])
def test_the_encoder_does_not_depend_on_the_pieces(model, small, cells):
    """Embeddings of any partition are those of one pass, to float32 rounding."""
    mel = LogMel()(noise(5.0, level=0.1, seed=2)[: 60 * CELL + 240])
    expected = dense_encoder(model, small, mel)
    state, parts, place = EncoderState.at_start(model), [], 0
    for count in cells:
        piece = mx.array(mel[8 * place : 8 * (place + count)])
        audio, state = encode(model, piece, state, window=small.encoder.window, downsampling=4)
        parts.append(np.array(audio))
        place += count

    assert apart(expected, np.concatenate(parts)) < 1e-5
    assert small.encoder.window - 1 == state.cache[0][0].shape[2]


def test_the_encoder_forgets_what_lies_outside_its_window(model, small):
    """Streams that differ at the start alone are equal beyond the reach of all layers."""
    audio = noise(8.0, level=0.1, seed=3)[: 80 * CELL + 240]
    other = audio.copy()
    other[:CELL] = 0
    one, two = (dense_encoder(model, small, LogMel()(samples)) for samples in (audio, other))
    reach = small.encoder.layers * (small.encoder.window - 1) // 4 + 2

    np.testing.assert_array_equal(one[reach + 1 :], two[reach + 1 :])
    assert np.abs(one[: reach // 2] - two[: reach // 2]).max() > 1e-3


@pytest.mark.parametrize("widths", [(1,) * 70, (20, 30, 20), (3, 1, 16) * 3 + (10,)])
def test_the_decoder_does_not_depend_on_the_width_of_its_passes(model, small, widths):
    """Logits beyond the window are those of one pass with the window as a mask."""
    rng = np.random.default_rng(4)
    audio = mx.array(rng.standard_normal((70, small.decoder.width)).astype(np.float32))
    ids = rng.integers(0, small.vocabulary, 70).tolist()
    condition = model.time_embedding(mx.array([6.0]))
    window = small.decoder.window
    run = partial(decode, model, condition=condition, window=window)
    expected, _ = run(audio, ids, (), offset=0)
    cache, parts, place = (), [], 0
    for width in widths:
        piece = slice(place, place + width)
        logits, grown = run(audio[piece], ids[piece], cache, offset=place)
        cache = shortened(grown, 0, window)
        parts.append(np.array(logits))
        place += width

    assert apart(np.array(expected), np.concatenate(parts)) < 1e-5
    assert window - 1 == cache[0][0].shape[2]


def test_positions_can_be_taken_back(model, small):
    """A pass whose end was wrong leaves the cache of one that ended earlier."""
    audio = mx.array(noise(1.0, seed=5)[: 40 * 64].reshape(40, 64))
    condition = model.time_embedding(mx.array([6.0]))
    run = partial(decode, model, condition=condition, window=small.decoder.window)
    _, before = run(audio[:30], [1] * 30, (), offset=0)
    cache = shortened(before, 0, small.decoder.window)
    _, wide = run(audio[30:38], [2] * 8, cache, offset=30)
    _, narrow = run(audio[30:33], [2] * 3, cache, offset=30)

    for pair, other in zip(
        shortened(wide, 5, small.decoder.window),
        shortened(narrow, 0, small.decoder.window),
        strict=True,
    ):
        np.testing.assert_allclose(np.array(pair[0]), np.array(other[0]), rtol=1e-5, atol=1e-5)


def spoken(backend, audio, *, chunk, draft_steps=8, delay_steps=6):
    """Return the ids and the driver of a stream of *audio* in pieces."""
    choices = []

    def decode_step(mel, state):
        said, after, work = backend.engine.decode(
            mel, state, delay_steps=delay_steps, draft_steps=draft_steps
        )
        choices.extend(said)
        return said, after, work

    recognizer = partial(
        VoxtralRecognizer,
        decode_step,
        tekken=backend.engine._tekken,
        delay_steps=delay_steps,
        log_mel=LogMel(),
    )
    driver = StreamDriver(OnlineStream(recognizer))
    driver.feed(audio, chunk_seconds=chunk)
    driver.finish()
    return [choice.id for choice in choices], driver


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1 / 16_000, 0.037, 0.08, 1.0])
def test_a_stream_does_not_depend_on_the_chunks(lively, chunk):
    """One sample at a time or all at once: the same ids."""
    audio = noise(0.4 if chunk < 0.001 else 5.0, level=0.1, seed=6)
    expected, _ = spoken(lively, audio, chunk=60.0)

    assert len(set(expected)) > 3
    assert expected == spoken(lively, audio, chunk=chunk)[0]


@pytest.mark.slow
@pytest.mark.parametrize("delay_steps", [3, 6, 10])
def test_drafts_change_no_id(lively, backend, delay_steps):
    """Step by step and eight at a time say the same, and the digits take far fewer passes."""
    audio = noise(5.0, level=0.1, seed=7)
    clip = load_clip("demo").audio
    pairs = [
        [
            spoken(one, sound, chunk=60.0, draft_steps=width, delay_steps=delay_steps)
            for width in (1, 8)
        ]
        for one, sound in ((lively, audio), (backend, clip))
    ]

    for (single, _), (wide, _) in pairs:
        assert single == wide
    passes = [driver.processor.stats.decoder_forwards for _, driver in pairs[1]]
    assert passes[1] < passes[0] / 2


@pytest.mark.slow
def test_any_thread_may_make_the_next_call(backend):
    """Nothing lazy survives a call: each chunk from a thread of its own gives the same words."""
    audio = connected_digits(6, seed=1).audio
    expected = spoken(backend, audio, chunk=1.0)[1].tokens
    driver = StreamDriver(backend.create_processor())
    for start in range(0, len(audio), 16_000):
        thread = threading.Thread(target=driver.feed, args=(audio[start : start + 16_000],))
        thread.start()
        thread.join()
    driver.finish()

    assert expected == driver.tokens


@pytest.mark.slow
@pytest.mark.parametrize("share", [0, 0.1, 0.5, 1])
def test_a_pass_that_fails_loses_nothing(backend, monkeypatch, share):
    """Whatever fails in the middle of a step, the next call repeats it and the words are whole."""
    audio = connected_digits(6, seed=2).audio
    forward, calls, failing = _Pass.forward, [], 0

    def faulty(self, ids):
        calls.append(ids)
        if len(calls) == failing:
            raise RuntimeError("CUDA out of memory")
        return forward(self, ids)

    monkeypatch.setattr(_Pass, "forward", faulty)
    backend.warmup()  # what opens every run is computed once
    calls.clear()
    expected, none = _heard(backend, audio)
    failing = max(1, round(share * len(calls)))
    calls.clear()
    came, faults = _heard(backend, audio)

    assert 0 == none
    assert 1 == faults
    assert len(expected) > 3
    assert expected == came


def _heard(backend, audio):
    """Return the tokens of a stream and how many of its calls had to be made again."""
    driver, faults = StreamDriver(backend.create_processor()), 0
    for start in range(0, len(audio), 16_000):
        driver.insert(audio[start : start + 16_000])
        faults += _retried(driver.drain)
    faults += _retried(driver.finish)
    return driver.tokens, faults


def _retried(run):
    """Make the call, again if it fails; tell how often it did."""
    try:
        run()
    except BackendError:
        run()
        return 1
    return 0


@pytest.mark.slow
@pytest.mark.skipif(find_spec("voxmlx") is None, reason="pip install 'wlk-voxtral-mlx[voxmlx]'")
def test_voxmlx_says_what_the_native_engine_says(backend):
    """Its modules hold the same weights: same words, same times, same work."""
    audio = load_clip("demo").audio
    with load_backend("voxtral-mlx", "digits", engine="voxmlx") as other:
        ids, driver = spoken(other, audio, chunk=1.0)
    expected, native = spoken(backend, audio, chunk=1.0)

    assert expected == ids
    assert native.tokens == driver.tokens


@pytest.mark.slow
def test_transformers_computes_the_same_logits(write, random_weights, small, model, tmp_path):
    """The same weights and features give the same logits, beyond both windows."""
    torch = pytest.importorskip("torch", reason="pip install torch transformers")
    transformers = pytest.importorskip("transformers", reason="pip install torch transformers")
    directory = write(tmp_path / "hf", "transformers")
    reference = transformers.VoxtralRealtimeForConditionalGeneration.from_pretrained(
        directory, dtype=torch.float32
    )
    mel = LogMel()(noise(5.0, level=0.1, seed=8)[: 60 * CELL + 240])
    ids = np.random.default_rng(9).integers(0, small.vocabulary, 60).tolist()
    with torch.inference_mode():
        expected = reference(
            input_ids=torch.tensor([ids]),
            input_features=torch.from_numpy(mel.T[None]),
            num_delay_tokens=6,
        ).logits[0]
    audio = mx.array(dense_encoder(model, small, mel))
    came, _ = decode(
        model,
        audio,
        ids,
        (),
        condition=model.time_embedding(mx.array([6.0])),
        offset=0,
        window=small.decoder.window,
    )

    assert apart(expected.numpy(), np.array(came)) < 1e-5
