"""Long streams of Qwen3-ASR on torch and on MLX commit the words of one decoding an utterance."""

from __future__ import annotations

import os

import numpy as np
import pytest

from wlk_bench.metrics.error_rate import word_edits
from wlk_conformance.testing import StreamDriver, connected_digits
from wlk_core import BackendUnavailable, load_backend

pytest.importorskip("wlk_qwen3_simul", reason="pip install wlk-qwen3-simul")

from wlk_qwen3_simul.checkpoint import BUNDLED
from wlk_qwen3_simul.engine.decoder import transcribe
from wlk_qwen3_simul.engine.engine import DecodingOptions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (BUNDLED["digits"] / "config.json").is_file(),
        reason="the digits checkpoint is not built",
    ),
]
IS_FULL = os.environ.get("WLK_FULL") == "1"  # nox -s full
SECONDS = 600.0 if IS_FULL else 40.0
MARGIN = 0.02  # share of the words that a stream may get wrong beyond the errors of one decoding
BACKENDS = ["qwen3-simul", "qwen3-mlx-simul"]
POLICIES = ["alignatt", "local-agreement"] if IS_FULL else ["alignatt"]


@pytest.fixture(scope="module")
def utterances():
    """Return clips of a few seconds each, in several voices."""
    clips, seconds = [], 0.0
    while seconds < SECONDS:
        clips.append(connected_digits(6, seed=len(clips), gap=(0.1, 0.6), lead=0.2, tail=0.4))
        seconds += clips[-1].seconds
    return clips


@pytest.fixture(scope="module")
def streamed(utterances):
    """Return a function that streams all clips without a reported silence, and returns the text."""
    texts = {}

    def stream(name, policy):
        if (name, policy) not in texts:
            with loaded(name) as backend:
                driver = StreamDriver(backend.create_processor(policy=policy, language="en"))
                driver.feed(np.concatenate([clip.audio for clip in utterances]))
                driver.finish()
            texts[name, policy] = driver.text
        return texts[name, policy]

    return stream


def loaded(name):
    """Return a backend with the bundled checkpoint, or skip the test without its framework."""
    try:
        return load_backend(name, "digits")
    except BackendUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", BACKENDS)
def test_a_long_stream_has_the_words_of_one_decoding_an_utterance(
    streamed, utterances, name, policy
):
    """The errors of the stream are those of the model, not of the cuts of its buffer."""
    reference = " ".join(clip.text for clip in utterances)
    with loaded(name) as backend:
        hypotheses = [
            transcribe(
                clip.audio,
                engine=backend.engine,
                options=DecodingOptions(),
                prompt="",
                language="en",
            )
            for clip in utterances
        ]
    offline = " ".join("".join(word.text for word in hypothesis.words) for hypothesis in hypotheses)
    stream_edits, offline_edits = (
        word_edits(reference, text).counts for text in (streamed(name, policy), offline)
    )

    assert offline_edits.errors <= backend.spec.bounds["wer"] * offline_edits.reference_length
    margin = MARGIN * offline_edits.reference_length
    assert stream_edits.errors <= offline_edits.errors + margin


@pytest.mark.parametrize("policy", POLICIES)
def test_both_frameworks_commit_the_same_words(streamed, policy):
    """In float32 the long streams agree word by word."""
    assert streamed(BACKENDS[0], policy) == streamed(BACKENDS[1], policy)
