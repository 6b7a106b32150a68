"""A backend around an engine that always emits the same word."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from wlk_conformance.testing import StreamDriver, noise
from wlk_core.plugins import OptionError, WorkCounters
from wlk_core.streaming import LogMel
from wlk_voxtral.backend import loaded_backend
from wlk_voxtral.checkpoint import CheckpointSettings
from wlk_voxtral.recognizer import silence_features
from wlk_voxtral.specs import voxtral_spec
from wlk_voxtral.speculative import TokenPrediction

PAD, WORD = 2, 3
SPEC = voxtral_spec(name="toy", summary="a toy", load="toy:load", options=())


@attrs.frozen
class State:
    """The steps of an utterance that were decoded."""

    steps: int
    nbytes: int = 100


@attrs.define
class Engine:
    """An engine that emits "a" at the sixth step of an utterance, and records its calls."""

    settings: CheckpointSettings
    calls: list = attrs.field(factory=list)

    def decode(self, mel, state, *, delay_steps, draft_steps):
        """Return a prediction for each step; the first step lies in front of the utterance."""
        self.calls.append((mel, state, delay_steps, draft_steps))
        first = 0 if state is None else state.steps
        stop = first + len(mel) // 8
        steps = [step - 1 - delay_steps for step in range(first, stop)]
        ids = {5: WORD, 6: 4 + ord("a")}
        predictions = [TokenPrediction(ids.get(step, PAD), 0.5) for step in steps if step >= 0]
        return predictions, State(stop), WorkCounters(decoder_positions=len(steps))


@pytest.fixture
def backend(tokenizer):
    """Return a backend around the engine; its checkpoint was trained for two delays."""
    settings = CheckpointSettings(
        name="tiny", tokenizer=tokenizer, log_mel=LogMel(), delays_ms=(240, 480)
    )
    return loaded_backend(SPEC, Engine(settings))


def finished(backend, **options):
    """Return the driver of a stream that decoded two seconds to the end."""
    driver = StreamDriver(backend.create_processor(**options))
    driver.feed(noise(2.0), chunk_seconds=0.5)
    driver.finish()
    return driver


@pytest.mark.parametrize(("delay_ms", "steps"), [(None, 6), ("auto", 6), (240, 3)])
def test_a_stream_keeps_the_delay_it_was_opened_with(backend, delay_ms, steps):
    """Words have the times of their audio, however late they are emitted."""
    driver = finished(backend, delay_ms=delay_ms, draft_steps=2)

    assert [("a", 0.48)] == [(token.text, pytest.approx(token.end)) for token in driver.tokens]
    assert {(steps, 2)} == {call[2:] for call in backend.engine.calls}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"language": "en"}, "toy detects the language by itself"),
        ({"delay_ms": 800}, "trained for a delay_ms of 240, 480"),
        ({"delay_ms": 100}, "trained for a delay_ms of 240, 480"),
        ({"policy": "alignatt"}, "toy streams by itself and has no policies: leave policy out"),
    ],
    ids=["language", "untrained", "odd", "policy"],
)
def test_a_stream_refuses_what_it_cannot_do(backend, options, message):
    """No option is dropped in silence."""
    with pytest.raises(OptionError, match=message):
        backend.create_processor(**options)
    assert [] == backend.engine.calls


def test_warmup_decodes_a_step_of_silence(backend):
    """It has the default delay, and no stream begins with its state."""
    backend.warmup()
    ((mel, state, *options),) = backend.engine.calls

    np.testing.assert_array_equal(silence_features(LogMel(), 1), mel)
    assert (None, [6, 1]) == (state, options)
