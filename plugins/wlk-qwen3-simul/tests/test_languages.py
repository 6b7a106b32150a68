"""Streams that share a model are told different languages, and keep them apart."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
import sys
import threading

import numpy as np
import pytest

from wlk_core.testing import StreamDriver
from wlk_qwen3_simul.backend import SimulBackend
from wlk_qwen3_simul.checkpoint import Checkpoint
from wlk_qwen3_simul.simul.engine import Engine
from wlk_qwen3_simul.specs import QWEN3_SIMUL
from wlk_qwen3_simul.text.prompt import PromptBuilder

LANGUAGES = ["de", "en", "es", "fr", "it", "ja", "pt", "zh"]
RATE = 16_000


def noise(seed):
    """Return three seconds that sound like no others."""
    return np.random.default_rng(seed).normal(size=3 * RATE).astype(np.float32) * 0.1


@pytest.mark.parametrize("policy", ["alignatt", "local-agreement"])
def test_eight_streams_with_eight_languages_each_force_and_report_their_own(
    toy, vocabulary, policy
):
    """The header in front of the text of every pass is that of the stream's own language."""
    network = toy(seed=1, vocabulary=330)  # which has something to say in each of them
    backend = SimulBackend(
        QWEN3_SIMUL,
        Engine(network=network, vocabulary=vocabulary, checkpoint=Checkpoint(name="toy")),
    )
    mine, told = threading.local(), {language: [] for language in LANGUAGES}
    extend = network.extend

    def heard_by(memory, parts, **asked):
        if len(parts[-1]) > 1:  # no single step: what stands behind the audio
            told[mine.language].append(list(parts[-1]))
        return extend(memory, parts, **asked)

    network.extend = heard_by

    def stream(language):
        mine.language = language
        driver = StreamDriver(
            backend.create_processor(language=language, policy=policy, max_new_tokens=24)
        )
        driver.feed(noise(LANGUAGES.index(language)), chunk_seconds=1.0)
        driver.finish()
        return [(token.text, token.start, token.detected_language) for token in driver.tokens]

    alone = [stream(language) for language in LANGUAGES]
    for passes in told.values():
        passes.clear()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(len(LANGUAGES)) as pool:
            together = list(pool.map(stream, LANGUAGES))
    finally:
        sys.setswitchinterval(interval)

    assert alone == together
    prompt = PromptBuilder.of(vocabulary)
    for language, tokens in zip(LANGUAGES, together, strict=True):
        assert {language} == {found for _, _, found in tokens}
        front = [*prompt.after, *prompt.header(language)]
        assert told[language]
        assert all(front == ids[: len(front)] for ids in told[language])
