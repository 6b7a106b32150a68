"""The forward passes of a stream equal transformers' own generation."""

from __future__ import annotations

from functools import partial

import attrs
import numpy as np
import pytest
import torch

from wlk_conformance.testing import StreamDriver, load_clip, noise
from wlk_core.plugins import OnlineStream
from wlk_core.streaming import LogMel
from wlk_voxtral.engine import VoxtralEngine
from wlk_voxtral.recognizer import VoxtralRecognizer
from wlk_voxtral_hf.torch.network import TorchNetwork

STEP = 1280


def streamed(engine, audio, *, chunk, draft_steps=8, delay_steps=6):
    """Return the ids, the driver and the states of a stream of *audio* in pieces."""
    predictions, states = [], []

    def decode(mel, state):
        batch, new_state, work = engine.decode(
            mel, state, delay_steps=delay_steps, draft_steps=draft_steps
        )
        predictions.extend(batch)
        states.append(new_state)
        return batch, new_state, work

    recognizer = partial(
        VoxtralRecognizer,
        decode,
        tokenizer=engine.settings.tokenizer,
        delay_steps=delay_steps,
        log_mel=engine.settings.log_mel,
    )
    driver = StreamDriver(OnlineStream(recognizer))
    driver.feed(audio, chunk_seconds=chunk)
    driver.finish()
    return [prediction.id for prediction in predictions], driver, states


def generated(engine, audio, *, delay_steps=6):
    """Return the ids of transformers' generation on all of the padded audio at once."""
    tokenizer = engine.settings.tokenizer
    steps = tokenizer.left_pad_steps + -(-len(audio) // STEP) + delay_steps + 11
    padded = np.zeros(200 + steps * STEP + 40, dtype=np.float32)
    first = 200 + tokenizer.left_pad_steps * STEP
    padded[first : first + len(audio)] = audio
    prompt = tokenizer.prompt(delay_steps)
    with torch.inference_mode():
        ids = engine.network.model.generate(
            input_ids=torch.tensor([prompt]),
            input_features=torch.from_numpy(LogMel()(padded).T[None]),
            num_delay_tokens=delay_steps,
            do_sample=False,
            max_new_tokens=steps - len(prompt),
            suppress_tokens=[tokenizer.eos_id],
        )
    return ids[0, len(prompt) :].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("delay_steps", [3, 6, 10])
def test_a_stream_predicts_what_offline_generation_predicts(lively, delay_steps):
    """They agree token by token, over a stretch that is longer than both windows."""
    audio = load_clip("demo").audio[: 9 * 16_000]
    expected = generated(lively, audio, delay_steps=delay_steps)
    ids, _, _ = streamed(lively, audio, chunk=0.5, delay_steps=delay_steps)

    assert len(set(expected)) > 4  # random weights repeat themselves, but not always
    assert expected == ids[: len(expected)]


@pytest.mark.slow
def test_the_digits_equal_offline_generation(backend):
    """The trained model agrees too, where most steps are drafted."""
    audio = load_clip("demo").audio
    expected = generated(backend.engine, audio)
    ids, driver, _ = streamed(backend.engine, audio, chunk=60.0)

    assert expected == ids[: len(expected)]
    assert 1 == len(ids) - len(expected)  # a stream decodes the last position too
    assert driver.processor.stats.decoder_forwards < len(expected) / 2


def assert_same_cache(expected, cache):
    """Compare keys and values to float32 rounding."""
    for layer, other in zip(expected.layers, cache.layers, strict=True):
        for tensor, same in zip(layer, other, strict=True):
            torch.testing.assert_close(tensor, same, rtol=1e-5, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1 / 16_000, 0.037, 0.08, 1.0])
def test_caches_do_not_depend_on_the_chunks(lively, chunk):
    """For any pieces, keys and values are those of the whole to float32 rounding."""
    audio = noise(0.5 if chunk < 0.001 else 6.0, level=0.1, seed=5)
    expected_ids, _, expected = streamed(lively, audio, chunk=60.0)
    ids, _, states = streamed(lively, audio, chunk=chunk)

    assert expected_ids == ids
    assert_same_cache(expected[-1].encoder_cache.kv_cache, states[-1].encoder_cache.kv_cache)
    assert_same_cache(expected[-1].kv_cache, states[-1].kv_cache)


@pytest.mark.slow
def test_an_end_of_text_is_never_predicted(backend, settings):
    """A stream goes on, because clock, audio and spacing are not the model's to end."""
    eos_id = settings.tokenizer.eos_id
    model = EagerModel(backend.engine.network.model, eos_id)
    engine = VoxtralEngine(TorchNetwork(model, eos_id=eos_id), settings)
    ids, driver, _ = streamed(engine, load_clip("demo").audio, chunk=1.0)

    assert eos_id not in ids
    assert len(driver.tokens) > 8


@attrs.define
class EagerModel:
    """A model that always finds the end of text most probable."""

    _model: object
    _eos_id: int

    def __getattr__(self, name):
        return getattr(self._model, name)

    def lm_head(self, hidden):
        """Return logits in which the end of text leads."""
        logits = self._model.lm_head(hidden).clone()
        logits[..., self._eos_id] = 1e4
        return logits


@pytest.mark.slow
def test_a_wrong_draft_leaves_no_trace(lively):
    """Step by step and eight at a time give the same ids and the same cache."""
    audio = noise(6.0, level=0.1, seed=6)
    single, _, expected = streamed(lively, audio, chunk=60.0, draft_steps=1)
    wide, _, states = streamed(lively, audio, chunk=60.0, draft_steps=8)

    assert single == wide
    assert_same_cache(expected[-1].kv_cache, states[-1].kv_cache)
