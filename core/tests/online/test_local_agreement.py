"""LocalAgreementRecognizer: its prompt, its cuts, and what is committed around them."""

from __future__ import annotations

import itertools

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


def test_the_buffer_is_cut_in_the_pause_after_the_last_committed_word():
    """Every cut lies in a pause between a committed word and the next."""
    starts = []

    def steady(audio, *, prompt, language):
        loud = np.flatnonzero(np.abs(audio) > 0.05)
        edges = np.flatnonzero(np.diff(loud) > 1000)
        begins = [loud[0], *loud[edges + 1]] if len(loud) else []
        ends = [*loud[edges], loud[-1]] if len(loud) else []
        starts.append(len(audio))
        words = zip(begins, ends, strict=True)
        return Hypothesis(words=tuple(Word(a / RATE, b / RATE, " w") for a, b in words))

    noise = np.random.default_rng(0)
    audio = np.zeros(20 * RATE, dtype=np.float32)
    for second in range(20):  # a word in the first 0.4 s of every second
        samples = slice(second * RATE, second * RATE + 6400)
        audio[samples] = noise.choice([-0.3, 0.3], 6400)
    recognizer = LocalAgreementRecognizer(steady, buffer_seconds=5.0)
    recognizer.feed(audio)
    committed, cuts, before = [], [], 0
    while (step := recognizer.step(is_last=True)) is not None:
        committed += step.committed
        cut = step.consumed_samples - starts[-1]
        if cut != before:
            cuts.append(cut / RATE)
            before = cut

    assert [pytest.approx(second, abs=0.01) for second in range(20)] == [
        word.start for word in committed
    ]
    assert len(cuts) >= 3
    assert all(0.4 <= cut % 1 for cut in cuts)  # in a pause
    assert max(starts) <= 6 * RATE


def test_an_end_far_into_the_pause_hides_no_word_after_a_cut():
    """The word after a cut is new, although the end of the word before it lies after both."""
    audio = np.zeros(8 * RATE, dtype=np.float32)
    for start, end in ((3.0, 3.4), (4.0, 4.4)):
        audio[round(start * RATE) : round(end * RATE)] = 0.3
    lengths, texts = [], itertools.chain([" tow"], itertools.repeat(" two"))

    def late(audio, *, prompt, language):
        lengths.append(len(audio) / RATE)
        start = len(lengths) - lengths[-1]  # one call a second
        words = []
        if start < 3.0 and len(lengths) >= 4:
            words.append(Word(3.0, 4.6, " one"))
        if len(lengths) >= 5:
            words.append(Word(4.0, 4.4, next(texts)))
        return Hypothesis(words=tuple(word.shifted(-start) for word in words))

    recognizer = LocalAgreementRecognizer(late, buffer_seconds=5.0)
    steps = []
    recognizer.feed(audio)
    while (step := recognizer.step(is_last=True)) is not None:
        steps.append(step)

    assert any(length < 4.3 for length in lengths[5:])
    assert [" one", " two"] == [word.text for step in steps for word in step.committed]


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
