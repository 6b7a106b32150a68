"""LocalAgreementRecognizer: its prompt, its cuts, and what is committed around them."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_conformance.testing import (
    CodedToken,
    StreamDriver,
    encode,
    partition,
    script_words,
)
from wlk_core.plugins import Hypothesis, LocalAgreementRecognizer, OnlineStream
from wlk_core.streaming import Word

RATE = 16_000


def run(recognizer, seconds, *, chunk):
    """Feed *seconds* of noise in chunks and return every step."""
    steps = []
    for first in range(0, seconds * RATE, chunk):
        recognizer.feed(np.full(min(chunk, seconds * RATE - first), 0.1, dtype=np.float32))
        while (step := recognizer.step(is_last=False)) is not None:
            steps.append(step)
    while (step := recognizer.step(is_last=True)) is not None:
        steps.append(step)
    return steps


def test_the_prompt_is_the_committed_text_before_the_buffer():
    """Words whose audio is still in the buffer are not in the prompt."""
    prompts = []

    def counting(audio, *, prompt, language):
        prompts.append(prompt)
        seconds = int(len(audio) / RATE)
        return Hypothesis(words=tuple(Word(i, i + 0.5, f" w{i}") for i in range(seconds)))

    recognizer = LocalAgreementRecognizer(counting, prompt="names: Ann", buffer_seconds=60.0)
    run(recognizer, 8, chunk=RATE)
    recognizer.end_utterance("names: Ann w0 w1")
    recognizer.feed(np.zeros(RATE, dtype=np.float32))
    recognizer.step(is_last=False)

    assert {"names: Ann"} == set(prompts[:-1])
    assert prompts[-1] == "names: Ann w0 w1"


def test_an_engine_that_changes_its_mind_is_not_committed_too_early(coded_engine):
    """Wrong words at the end of a buffer are shown, corrected, and never committed."""
    script = [CodedToken(1 + i * 7 % 10, 1 + 5 * i, 4) for i in range(40)]
    audio = encode(script, cells=210)
    engine = coded_engine(changes_mind=True)
    truth = [word.text.strip() for word in script_words(script, engine.vocabulary)]
    driver, shown = StreamDriver(engine.stream()), []
    for chunk in partition(audio, 0.5):
        driver.feed(chunk)
        committed = [token.text.strip() for token in driver.tokens]
        buffer = driver.processor.get_buffer()
        shown.append(committed + [token.text.strip() for token in buffer.tokens])
    driver.finish()

    assert truth == [token.text.strip() for token in driver.tokens]
    assert any(words != truth[: len(words)] for words in shown)


@pytest.mark.parametrize("tick_seconds", [0.1, 0.5, 1.0])
def test_a_pause_in_the_audio_repeats_no_word(engine, tick_seconds):
    """Silence that moves the buffer's start into a run of words leaves the later ones committed."""
    script = [CodedToken(1 + i, 5 + 4 * i, 3) for i in range(6)]
    truth = [word.text for word in script_words(script, engine.vocabulary)]
    stream = OnlineStream(
        lambda: LocalAgreementRecognizer(engine.transcribe, tick_seconds=tick_seconds)
    )
    driver = StreamDriver(stream)
    driver.feed(encode(script, cells=100))
    driver.finish()

    assert "".join(truth).strip() == driver.text
