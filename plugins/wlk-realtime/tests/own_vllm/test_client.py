"""The backend at vLLM's own connection."""

from __future__ import annotations

from bursts import spoken, true_end
import numpy as np
import pytest

from wlk_core import load_backend
from wlk_core.errors import BackendError

BURSTS = ((0.5, 0.9), (1.2, 1.75), (2.4, 3.01))
UTTERANCE = spoken(*BURSTS, seconds=3.5)
STEP_SECONDS = 0.08


def fed(stream, audio, *, chunk=4000):
    """Return the tokens that come while *audio* is inserted in chunks of so many samples."""
    tokens = []
    for piece in np.split(audio, range(chunk, len(audio), chunk)):
        stream.insert_audio_chunk(piece)
        tokens += stream.process_iter().committed
    return tokens


def assert_bursts(tokens, bursts, *, origin=0.0):
    """Check starts to the sample and ends to the step."""
    assert [origin + start for start, _ in bursts] == pytest.approx([t.start for t in tokens])
    assert [origin + true_end(end) for _, end in bursts] == pytest.approx(
        [token.end for token in tokens], abs=STEP_SECONDS + 1e-6
    )


@pytest.fixture
def backend(url):
    """Return a backend of the server."""
    with load_backend("realtime", url, timeout_seconds=60) as loaded:
        yield loaded


def test_the_handshake_declares_times(backend):
    """One text for each step, as the usage counts."""
    backend.warmup()

    declared = {"word-times", "hypothesis", "bounded-state", "speaker-turns"}
    assert declared == backend.spec.capabilities


def test_utterances_between_silences_lose_nothing(backend):
    """Audio that comes before a generation is done is held."""
    stream = backend.create_processor()
    first = [*fed(stream, UTTERANCE), *stream.start_silence().committed]
    stream.end_silence(0.3)
    second = [*fed(stream, UTTERANCE, chunk=56_000), *stream.finish().committed]
    stream.close()

    assert_bursts(first, BURSTS)
    assert_bursts(second, BURSTS, origin=3.8)


def test_an_engine_that_fails_loses_no_word(backend, engine):
    """The error can be tried again, on another session."""
    stream = backend.create_processor()
    tokens = fed(stream, UTTERANCE[:28_000])
    tokens += stream.start_silence().committed
    stream.end_silence(0.0)
    engine.fault = RuntimeError("out of memory")
    stream.insert_audio_chunk(UTTERANCE[28_000:])
    with pytest.raises(BackendError, match="out of memory") as raised:
        stream.process_iter()
    tokens += stream.finish().committed
    stream.close()

    assert raised.value.retryable
    assert_bursts(tokens, BURSTS)


def test_a_closed_stream_aborts_its_request(backend, engine):
    """A socket that stays open would hold memory of the GPU."""
    stream = backend.create_processor()
    fed(stream, UTTERANCE[:16_000])
    of_handshake = engine.aborted.get(timeout=60)
    stream.close()

    assert of_handshake != engine.aborted.get(timeout=60)
