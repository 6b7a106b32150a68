"""Streams at a server that speaks OpenAI's protocol without extensions."""

from __future__ import annotations

import numpy as np
from openai_server import RATE, SmallOpenAi
import pytest
from web_sockets import running

from wlk_core import load_backend

AUDIO = (0.3 * np.sin(np.arange(16_000 * 7 // 2) * 0.2)).astype(np.float32)


def transcribed(backend, *, pauses=1):
    """Return the tokens of utterances of 3.5 s."""
    stream = backend.create_processor()
    tokens = []
    for _ in range(pauses):
        for piece in np.split(AUDIO, 7):
            stream.insert_audio_chunk(piece)
            tokens += stream.process_iter().committed
        tokens += stream.start_silence().committed
        stream.end_silence(10.0)
    tokens += stream.finish().committed
    stream.close()
    return tokens


@pytest.mark.parametrize(
    "server",
    [SmallOpenAi(), SmallOpenAi(is_live=False), SmallOpenAi(is_live=False, is_flat=True)],
    ids=["deltas", "transcripts", "the beta's fields"],
)
def test_the_text_is_that_of_the_server(server):
    """Each utterance is an item, and its words lie within its audio."""
    with running(server) as url, load_backend("realtime", url) as backend:
        tokens = transcribed(backend, pauses=2)
        capabilities = backend.spec.capabilities

    assert "".join(token.text for token in tokens) == "word0 word1 word2 word0 word1 word2"
    assert all(token.end <= 3.5 for token in tokens[:3])
    assert all(13.5 <= token.start <= token.end <= 17.0 for token in tokens[3:])
    assert capabilities == {"speaker-turns"}


def test_audio_goes_out_at_24_kilohertz():
    """Each utterance is resampled separately, exact to the sample, and padded to 0.1 s."""
    server = SmallOpenAi()
    with running(server) as url, load_backend("realtime", url) as backend:
        stream = backend.create_processor()
        for samples in (16_000, 8_001, 160):
            stream.insert_audio_chunk(AUDIO[:samples])
            stream.start_silence()
            stream.end_silence(1.0)
        stream.close()

    assert [len(item) for item in server.items] == [24_000, 12_002, 2_400]
    times = np.arange(RATE // 10, RATE // 2) / RATE
    truth = 0.3 * np.sin(times * 16_000 * 0.2)
    assert truth == pytest.approx(server.items[0][RATE // 10 : RATE // 2] / 32_768, abs=0.01)


def test_a_session_asks_for_the_named_model_and_no_turn_detection():
    """The session has the fields that the greeting showed."""
    for server in (SmallOpenAi(), SmallOpenAi(is_flat=True)):
        with running(server) as url, load_backend("realtime", f"{url}#small") as backend:
            backend.warmup()
        update = server.updates[0]
        source = update if server.is_flat else update["audio"]["input"]
        name = "input_audio_transcription" if server.is_flat else "transcription"

        assert (source["turn_detection"], source[name]) == (None, {"model": "small"})
