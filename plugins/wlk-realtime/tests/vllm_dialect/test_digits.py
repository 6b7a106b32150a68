"""Voxtral at a server with vLLM's messages has the words and times of Voxtral here."""

from __future__ import annotations

from functools import partial

from digits_model import DigitsModel
import numpy as np
import pytest
from small_server import SmallVllm
from web_sockets import running

from wlk_conformance.testing.digits import load_clip
from wlk_core import load_backend

pytest.importorskip("wlk_voxtral_hf", reason="pip install wlk-voxtral-hf")

STEP_SECONDS = 0.08


def words_of(backend, audio):
    """Return the tokens of *audio* in chunks of half a second."""
    stream = backend.create_processor()
    tokens = []
    for piece in np.split(audio, range(8000, len(audio), 8000)):
        stream.insert_audio_chunk(piece)
        tokens += stream.process_iter().committed
    tokens += stream.finish().committed
    stream.close()
    return tokens


@pytest.mark.slow
def test_digits_have_the_times_of_the_backend_here():
    """Each end to a step, and each start to a frame of the loudness."""
    audio = load_clip("demo").audio
    audio = np.rint(audio * 32_768).clip(-32_768, 32_767).astype(np.float32) / 32_768
    with load_backend("voxtral-hf", "digits") as local:
        here = words_of(local, audio)
        server = SmallVllm(partial(DigitsModel, local.engine))
        with running(server) as url, load_backend("realtime", url, timeout_seconds=300) as remote:
            there = words_of(remote, audio)

    assert len(here) > 5
    assert [token.text for token in here] == [token.text for token in there]
    assert [token.start for token in here] == pytest.approx([token.start for token in there])
    assert [t.end for t in here] == pytest.approx([t.end for t in there], abs=STEP_SECONDS + 1e-6)
