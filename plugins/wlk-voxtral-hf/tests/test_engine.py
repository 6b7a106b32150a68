"""The forward loop says what transformers' own generation says."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from transformers import VoxtralRealtimeForConditionalGeneration

from wlk_core import BackendError, OnlineStream
from wlk_core.streaming import LogMel, TokenPrediction
from wlk_core.testing import StreamDriver, connected_digits, load_clip, noise
from wlk_voxtral.recognizer import VoxtralRecognizer
from wlk_voxtral_hf.engine import VoxtralEngine, _Pass

CELL = 1280


@pytest.fixture(scope="module")
def tekken(backend):
    """Return the tokenizer of the digits checkpoint."""
    return backend.engine._tekken


@pytest.fixture(scope="module")
def lively(backend):
    """
    Return a model of random weights whose greedy choices have many values.

    The audio dominates, so that an error in any cache changes what is said.
    """
    generator = torch.Generator().manual_seed(3)
    model = VoxtralRealtimeForConditionalGeneration(backend.engine._model.config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.normal_(0, weight[0].numel() ** -0.5, generator=generator)
            if "linear_2" in name:
                weight.mul_(8)
    return model.requires_grad_(False)


def spoken(engine, audio, *, chunk, draft_steps=8, delay_steps=6):
    """Return the ids, leads and last state that a stream of *audio* in pieces comes to."""
    choices, states = [], []

    def decode(mel, state):
        said, after, work = engine.decode(
            mel, state, delay_steps=delay_steps, draft_steps=draft_steps
        )
        choices.extend(said)
        states.append(after)
        return said, after, work

    recognizer = partial(
        VoxtralRecognizer,
        decode,
        tekken=engine._tekken,
        delay_steps=delay_steps,
        log_mel=LogMel(),
    )
    driver = StreamDriver(OnlineStream(recognizer))
    driver.feed(audio, chunk_seconds=chunk)
    driver.finish()
    return [choice.id for choice in choices], driver, states


def offline(model, tekken, audio, *, delay_steps=6):
    """Return the ids of transformers' generation on all of the padded audio at once."""
    steps = tekken.left_pad_steps + -(-len(audio) // CELL) + delay_steps + 11
    padded = np.zeros(200 + steps * CELL + 40, dtype=np.float32)
    first = 200 + tekken.left_pad_steps * CELL
    padded[first : first + len(audio)] = audio
    prompt = tekken.prompt(delay_steps)
    with torch.inference_mode():
        ids = model.generate(
            input_ids=torch.tensor([prompt]),
            input_features=torch.from_numpy(LogMel()(padded).T[None]),
            num_delay_tokens=delay_steps,
            do_sample=False,
            max_new_tokens=steps - len(prompt),
            suppress_tokens=[tekken.eos_id],
        )
    return ids[0, len(prompt) :].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("delay_steps", [3, 6, 10])
def test_a_stream_says_what_offline_generation_says(lively, tekken, delay_steps):
    """Token by token, over a stretch that is longer than both windows."""
    audio = load_clip("demo").audio[: 9 * 16_000]
    engine = VoxtralEngine(lively, tekken=tekken, log_mel=LogMel())
    expected = offline(lively, tekken, audio, delay_steps=delay_steps)
    came, _, _ = spoken(engine, audio, chunk=0.5, delay_steps=delay_steps)

    assert len(set(expected)) > 4  # random weights repeat themselves, but say something
    assert expected == came[: len(expected)]


@pytest.mark.slow
def test_the_digits_say_what_offline_generation_says(backend, tekken):
    """The trained model too, where most steps are drafted."""
    audio = load_clip("demo").audio
    expected = offline(backend.engine._model, tekken, audio)
    came, driver, _ = spoken(backend.engine, audio, chunk=60.0)

    assert expected == came[: len(expected)]
    assert 1 == len(came) - len(expected)  # a stream decodes the last position too
    assert driver.processor.stats.decoder_forwards < len(expected) / 2


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1 / 16_000, 0.037, 0.08, 1.0])
def test_caches_do_not_depend_on_the_chunks(lively, tekken, chunk):
    """Whatever the pieces, keys and values are those of the whole to float32 rounding."""
    audio = noise(0.5 if chunk < 0.001 else 6.0, level=0.1, seed=5)
    engine = VoxtralEngine(lively, tekken=tekken, log_mel=LogMel())
    expected_ids, _, expected = spoken(engine, audio, chunk=60.0)
    ids, _, states = spoken(engine, audio, chunk=chunk)

    assert expected_ids == ids
    for layers, others in (
        (expected[-1].encoder, states[-1].encoder),
        (expected[-1].decoder, states[-1].decoder),
    ):
        for pair, other in zip(layers, others, strict=True):
            for tensor, same in zip(pair, other, strict=True):
                torch.testing.assert_close(tensor, same, rtol=1e-5, atol=2e-5)


@pytest.mark.slow
def test_both_windows_bound_the_state(backend):
    """Keys and values are kept for one position less than each window of the configuration."""
    _, driver, states = spoken(backend.engine, connected_digits(30, seed=3).audio, chunk=2.0)
    config = backend.engine._model.config

    assert config.audio_config.sliding_window - 1 == states[-1].encoder[0][0].shape[2]
    assert config.text_config.sliding_window - 1 == states[-1].decoder[0][0].shape[2]
    assert states[-1].nbytes < driver.processor.stats.state_bytes


@pytest.mark.slow
def test_an_end_of_text_is_never_chosen(backend, tekken):
    """A stream goes on: clock, audio and spacing are not the model's to end."""
    engine = VoxtralEngine(
        _Eager(backend.engine._model, tekken.eos_id), tekken=tekken, log_mel=LogMel()
    )
    ids, driver, _ = spoken(engine, load_clip("demo").audio, chunk=1.0)

    assert tekken.eos_id not in ids
    assert len(driver.tokens) > 8


class _Eager:
    """A model that always finds the end of text most likely."""

    def __init__(self, model, eos):
        self._model, self._eos = model, eos

    def __getattr__(self, name):
        return getattr(self._model, name)

    def lm_head(self, hidden):
        """Return logits in which the end of text leads."""
        logits = self._model.lm_head(hidden).clone()
        logits[..., self._eos] = 1e4
        return logits


@pytest.mark.slow
def test_a_draft_that_was_wrong_leaves_no_trace(lively, tekken):
    """Step by step and eight at a time come to the same ids and the same cache."""
    audio = noise(6.0, level=0.1, seed=6)
    engine = VoxtralEngine(lively, tekken=tekken, log_mel=LogMel())
    single, _, expected = spoken(engine, audio, chunk=60.0, draft_steps=1)
    wide, _, states = spoken(engine, audio, chunk=60.0, draft_steps=8)

    assert single == wide
    for pair, other in zip(expected[-1].decoder, states[-1].decoder, strict=True):
        for tensor, same in zip(pair, other, strict=True):
            torch.testing.assert_close(tensor, same, rtol=1e-5, atol=2e-5)


def test_a_state_is_never_changed(backend, tekken):
    """The same call on the same state gives the same answer: a failed call can be repeated."""
    engine = backend.engine
    mel = LogMel()(noise(1.0, level=0.1, seed=7)[: 8 * CELL + 240])
    _, state, _ = engine.decode(mel, None, delay_steps=6, draft_steps=8)
    first, one, _ = engine.decode(mel, state, delay_steps=6, draft_steps=8)
    again, other, _ = engine.decode(mel, state, delay_steps=6, draft_steps=8)

    assert first == again
    for pair, same in zip(one.encoder, other.encoder, strict=True):
        torch.testing.assert_close(pair[0], same[0], rtol=0, atol=0)


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


def test_choices_tell_probability_and_lead(backend):
    """Probabilities are those of the softmax, the lead is that of the logits."""
    mel = LogMel()(noise(1.0, level=0.1, seed=7)[: 9 * CELL + 240])
    said, _, _ = backend.engine.decode(mel, None, delay_steps=6, draft_steps=1)

    assert all(
        isinstance(choice, TokenPrediction) and 0 < choice.probability <= 1 for choice in said
    )
    assert all(choice.margin >= 0 for choice in said)
