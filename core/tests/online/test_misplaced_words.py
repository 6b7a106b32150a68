"""Words that an engine puts outside its audio are moved into it, counted, and logged once."""

from __future__ import annotations

from functools import partial
import math
from operator import add

import attrs
import numpy as np
import pytest

from wlk_conformance.testing import StreamDriver
from wlk_core.plugins import (
    AlignAtt,
    AlignAttRecognizer,
    AlignedHypothesis,
    AlignedWord,
    Hypothesis,
    LocalAgreementRecognizer,
    LongFormRecognizer,
    OnlineStream,
    Word,
)

SECONDS = 4.0
SILENCE = np.zeros(int(SECONDS * 16_000), dtype=np.float32)


def word_of(start, samples):
    """Return a word whose start is *start* of the seconds of audio, a function."""
    time = start(samples / 16_000)
    return Word(time, time + 0.2, " word")


def transcribe(start, audio, *, prompt, language):
    """Return the word."""
    del prompt, language
    return Hypothesis(words=(word_of(start, len(audio)),))


def decode(start, audio, **context):
    """Return the same word with the frame that it attended to."""
    if context["context"]:
        return AlignedHypothesis()
    word = word_of(start, len(audio))
    return AlignedHypothesis(words=(AlignedWord(word=word, frames=(2,), tokens=(7,)),))


class Native(LongFormRecognizer):
    """Emit the word as it is once its utterance is complete."""

    def __init__(self, start):
        self.start = start
        super().__init__(lambda _audio, **_: Hypothesis())

    def step(self, *, is_last):
        """Emit the word."""
        step = super().step(is_last=is_last)
        if step is None:
            return None
        return attrs.evolve(step, committed=(word_of(self.start, step.consumed_samples),))


def streams(start):
    """Return what makes the recognizer of each shape, with a word that starts at *start*."""
    policy = AlignAtt(border_frames=4, rewind_frames=25)
    aligned = partial(AlignAttRecognizer, partial(decode, start), policy=policy, frame_samples=320)
    return {
        "local-agreement": partial(LocalAgreementRecognizer, partial(transcribe, start)),
        "alignatt": aligned,
        "native": partial(Native, start),
    }


@pytest.mark.parametrize("shape", ["local-agreement", "alignatt", "native"])
@pytest.mark.parametrize("start", [SECONDS + 0.6, 400.0, -0.6, -math.inf])
def test_a_word_outside_the_audio_is_counted_and_logged_once(shape, start, caplog):
    """Whatever the recognizer, its token lies in the audio and one line states the mistake."""
    driver = StreamDriver(OnlineStream(streams(lambda _: start)[shape]))
    driver.feed(SILENCE, chunk_seconds=SECONDS)
    driver.drain()
    driver.finish()

    assert driver.processor.stats.misplaced_words >= 1
    assert 1 == len(caplog.records)
    assert "outside the audio it was called with" in caplog.text
    assert all(0 <= token.start <= token.end <= SECONDS for token in driver.tokens)


@pytest.mark.parametrize("shape", ["local-agreement", "alignatt", "native"])
def test_a_word_inside_the_audio_is_not_counted(shape, caplog):
    """A word of the audio is no mistake, and neither is one in the padding right after it."""
    for offset in (-0.3, 0.4):
        driver = StreamDriver(OnlineStream(streams(partial(add, offset))[shape]))
        driver.insert(SILENCE)
        driver.finish()

        assert 0 == driver.processor.stats.misplaced_words
    assert not caplog.records
