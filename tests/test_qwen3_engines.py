"""Long Qwen3-ASR streams on torch and MLX commit the words of decoding each utterance at once."""

from __future__ import annotations

import os

import numpy as np
import pytest

from wlk_bench.metrics.error_rate import word_edits
from wlk_conformance.testing import StreamDriver, connected_digits
from wlk_core import BackendUnavailable, load_backend

pytest.importorskip("wlk_qwen3_simul", reason="pip install wlk-qwen3-simul")

from wlk_qwen3_simul.engine.decoder import transcribe
from wlk_qwen3_simul.engine.engine import DecodingOptions

IS_FULL = os.environ.get("WLK_FULL") == "1"  # nox -s full
SECONDS = 600.0 if IS_FULL else 40.0
MARGIN = 0.02  # share of the words that a stream may get wrong beyond the errors of whole decoding


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["alignatt", "local-agreement"] if IS_FULL else ["alignatt"])
def test_a_long_stream_has_the_words_of_one_decoding_an_utterance(policy):
    """Errors come from the model, not from cutting its buffer, and both frameworks make them."""
    clips, seconds = [], 0.0
    while seconds < SECONDS:
        clips.append(connected_digits(6, seed=len(clips), gap=(0.1, 0.6), lead=0.2, tail=0.4))
        seconds += clips[-1].seconds
    reference = " ".join(clip.text for clip in clips)
    texts, errors = [], []
    for name in ("qwen3-simul", "qwen3-mlx-simul"):
        try:
            backend = load_backend(name, "digits")
        except BackendUnavailable as error:
            pytest.skip(str(error))
        with backend:
            driver = StreamDriver(backend.create_processor(policy=policy, language="en"))
            driver.feed(np.concatenate([clip.audio for clip in clips]))
            driver.finish()
            options = {"engine": backend.engine, "options": DecodingOptions()}
            wholes = [transcribe(c.audio, prompt="", language="en", **options) for c in clips]
        offline = " ".join("".join(word.text for word in whole.words) for whole in wholes)
        texts.append(driver.text)
        errors.append([word_edits(reference, text).counts for text in (driver.text, offline)])

    assert texts[0] == texts[1]
    for streamed, whole in errors:
        assert whole.rate <= backend.spec.bounds["wer"]
        assert streamed.errors <= whole.errors + MARGIN * whole.reference_length
