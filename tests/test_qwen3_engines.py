"""Long streams of Qwen3-ASR on torch and on MLX: the words of one pass an utterance."""

from __future__ import annotations

import os

import numpy as np
import pytest

from wlk_bench.metrics.error_rate import word_edits
from wlk_core import BackendUnavailable, load_backend
from wlk_core.testing import StreamDriver, connected_digits

pytest.importorskip("wlk_qwen3_simul", reason="pip install wlk-qwen3-simul")

from wlk_qwen3_simul.loading import BUNDLED
from wlk_qwen3_simul.simul.engine import StreamSettings
from wlk_qwen3_simul.simul.transcribe import transcribe

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (BUNDLED["digits"] / "config.json").is_file(),
        reason="the digits checkpoint is not built",
    ),
]
EVERYTHING = os.environ.get("WLK_FULL") == "1"  # nox -s full
SECONDS = 600.0 if EVERYTHING else 40.0
WORSE = 0.02  # of the words: what a stream may get wrong beyond what one pass does
BACKENDS = ["qwen3-simul", "qwen3-mlx-simul"]
POLICIES = ["alignatt", "local-agreement"] if EVERYTHING else ["alignatt"]


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
    """Return what streams them all without a pause that anybody is told of: a text a call."""
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
    """Return a backend with the bundled checkpoint, if what it runs on is here."""
    try:
        return load_backend(name, "digits")
    except BackendUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", BACKENDS)
def test_a_long_stream_says_what_one_pass_an_utterance_says(streamed, utterances, name, policy):
    """However often the buffer was cut: the errors are those of the model, not of the cuts."""
    said = " ".join(clip.text for clip in utterances)
    with loaded(name) as backend:
        passes = [
            transcribe(
                clip.audio,
                engine=backend.engine,
                settings=StreamSettings(),
                prompt="",
                language="en",
            )
            for clip in utterances
        ]
    once = " ".join("".join(word.text for word in heard.words) for heard in passes)
    errors, least = (word_edits(said, text).counts for text in (streamed(name, policy), once))

    assert least.errors <= backend.spec.bounds["wer"] * least.reference_length
    assert errors.errors <= least.errors + WORSE * least.reference_length


@pytest.mark.parametrize("policy", POLICIES)
def test_both_engines_say_the_same_for_as_long(streamed, policy):
    """In float32, word by word."""
    assert streamed(BACKENDS[0], policy) == streamed(BACKENDS[1], policy)
