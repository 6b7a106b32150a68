"""The forward passes of a stream yield what transformers' own generation yields."""

from __future__ import annotations

from functools import partial

import attrs
import numpy as np
import pytest
import torch

from wlk_conformance.testing import StreamDriver, load_clip
from wlk_core.plugins import OnlineStream
from wlk_frameworks.features import LogMel
from wlk_voxtral.engine import VoxtralEngine
from wlk_voxtral.recognizer import voxtral_recognizer
from wlk_voxtral_hf.torch.network import TorchNetwork

STEP = 1280


def streamed(engine, audio, *, chunk, draft_steps=8, delay_steps=6):
    """Return the ids, the driver and the states of a stream that receives *audio* in pieces."""
    predictions, states = [], []

    def decode(mel, state):
        batch, new_state, work = engine.decode(
            mel, state, delay_steps=delay_steps, draft_steps=draft_steps
        )
        predictions.extend(batch)
        states.append(new_state)
        return batch, new_state, work

    recognizer = partial(
        voxtral_recognizer,
        decode,
        tokenizer=engine.checkpoint.tokenizer,
        delay_steps=delay_steps,
        log_mel=engine.checkpoint.log_mel,
    )
    driver = StreamDriver(OnlineStream(recognizer))
    driver.feed(audio, chunk_seconds=chunk)
    driver.finish()
    return [prediction.id for prediction in predictions], driver, states


def generated(engine, audio, *, delay_steps=6):
    """Return the ids that transformers generates from all of the padded audio at once."""
    tokenizer = engine.checkpoint.tokenizer
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
def test_a_stream_predicts_what_offline_generation_predicts(random_engine, delay_steps):
    """They agree token by token over audio that is longer than both windows."""
    audio = load_clip("demo").audio[: 9 * 16_000]
    expected = generated(random_engine, audio, delay_steps=delay_steps)
    ids, _, _ = streamed(random_engine, audio, chunk=0.5, delay_steps=delay_steps)

    assert len(set(expected)) > 4  # random weights repeat themselves, but not always
    assert ids[: len(expected)] == expected


@pytest.mark.slow
def test_an_end_of_text_is_never_predicted(backend, checkpoint):
    """A stream goes on until its caller ends it, whatever the model predicts."""
    eos_id = checkpoint.tokenizer.eos_id
    model = EagerModel(backend.engine.network.model, eos_id)
    engine = VoxtralEngine(TorchNetwork(model, eos_id=eos_id), checkpoint)
    ids, driver, _ = streamed(engine, load_clip("demo").audio, chunk=1.0)

    assert eos_id not in ids
    assert len(driver.tokens) > 8


@attrs.define
class EagerModel:
    """A model to which the end of text is always most probable."""

    _model: object
    _eos_id: int

    def __getattr__(self, name):
        return getattr(self._model, name)

    def lm_head(self, hidden):
        """Return logits that are highest for the end of text."""
        logits = self._model.lm_head(hidden).clone()
        logits[..., self._eos_id] = 1e4
        return logits
