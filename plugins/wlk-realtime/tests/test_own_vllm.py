"""The backend works with vLLM's own server code, a stub engine and no GPU: nox -s vllm."""

from __future__ import annotations

from importlib.util import find_spec

from bursts import BURSTS, UTTERANCE, fed, true_end
import pytest

from wlk_core import load_backend
from wlk_core.errors import BackendError

if find_spec("vllm") is None:
    pytest.skip("vLLM needs an environment of its own: nox -s vllm", allow_module_level=True)

from own_vllm import StubEngine, running


@pytest.fixture
def engine():
    """Return an engine that emits a word for each burst of sound."""
    return StubEngine()


@pytest.fixture
def backend(engine):
    """Return a backend at a server with that engine."""
    with running(engine) as url, load_backend("realtime", url, timeout_seconds=60) as loaded:
        yield loaded


def assert_bursts(tokens, *, origin=0.0):
    """Check starts to the sample, and ends to the step of 80 ms."""
    assert [t.start for t in tokens] == pytest.approx([origin + start for start, _ in BURSTS])
    assert [token.end for token in tokens] == pytest.approx(
        [origin + true_end(end) for _, end in BURSTS], abs=0.08 + 1e-6
    )


def test_utterances_between_silences_lose_nothing(backend):
    """Deltas match steps and tokens; audio is queued until a generation has ended."""
    stream = backend.create_processor()
    first = [*fed(stream, UTTERANCE), *stream.start_silence().committed]
    stream.end_silence(0.3)
    second = [*fed(stream, UTTERANCE, chunk=56_000), *stream.finish().committed]
    stream.close()

    declared = {"word-times", "hypothesis", "bounded-state", "speaker-turns"}
    assert backend.spec.capabilities == declared
    assert_bursts(first)
    assert_bursts(second, origin=3.8)


def test_an_engine_that_fails_loses_no_word(backend, engine):
    """The error is retryable, in another session."""
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
    assert_bursts(tokens)


def test_a_closed_stream_aborts_its_request(backend, engine):
    """A socket left open would keep GPU memory allocated."""
    stream = backend.create_processor()
    fed(stream, UTTERANCE[:16_000])
    of_handshake = engine.aborted.get(timeout=60)
    stream.close()

    assert of_handshake != engine.aborted.get(timeout=60)
