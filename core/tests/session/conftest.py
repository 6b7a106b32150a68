"""A stream over an engine that reads coded audio, and a detector that fits it."""

from __future__ import annotations

import numpy as np
import pytest

from wlk_core.online import Hypothesis, LocalAgreementRecognizer, OnlineStream
from wlk_core.processor import SAMPLE_RATE, WorkCounters
from wlk_core.streaming import Word
from wlk_core.testing import CELL_SAMPLES, read_tokens
from wlk_core.testing.coded_audio import CodedToken, encode, script_words

DIGIT_WORDS = (
    " zero", " one", " two", " three", " four", " five", " six", " seven", " eight", " nine",
)  # fmt: skip
SCRIPT = [CodedToken(1 + i % 10, 2 + 6 * i, 4) for i in range(20)]


class CodedEngine:
    """Transcribe coded audio; engine calls named in `fail_at`, counted from 1, raise instead."""

    def __init__(self, fail_at=(), before_call=None):
        self.calls = 0
        self.fail_at = frozenset(fail_at)
        self.before_call = before_call

    def __call__(self, audio, *, prompt, language):
        """Return the tokens whose first half cell lies in *audio*."""
        self.calls += 1
        if self.before_call is not None:
            self.before_call()
        if self.calls in self.fail_at:
            raise RuntimeError(f"engine call {self.calls} was scripted to fail")
        half = CELL_SAMPLES // 2
        words = tuple(
            Word(token.start / SAMPLE_RATE, token.end / SAMPLE_RATE, DIGIT_WORDS[token.id - 1], 1.0)
            for token in read_tokens(audio)
            if token.end - token.origin >= half > token.start - token.origin
        )
        work = WorkCounters(encoder_frames=-(-len(audio) // 160))
        return Hypothesis(words=words, language=language or "en", work=work)


class LoudIsSpeech:
    """A detector for coded audio: any sample that is not zero is speech."""

    frame_samples = 512

    def __call__(self, frame):
        """Return 1 for speech, 0 for silence."""
        return 1.0 if np.any(frame) else 0.0

    def reset(self):
        """Keep no state."""


@pytest.fixture
def open_stream():
    """Return a function that opens a stream; its arguments are those of CodedEngine."""

    def open_stream(fail_at=(), before_call=None):
        engine = CodedEngine(fail_at, before_call)
        return OnlineStream(lambda: LocalAgreementRecognizer(engine))

    return open_stream


@pytest.fixture
def detector():
    """Return a speech detector for coded audio."""
    return LoudIsSpeech()


@pytest.fixture
def speech():
    """Return ten seconds of coded audio, float32[n]."""
    return encode(SCRIPT, cells=126)


@pytest.fixture
def words():
    """Return the words of `speech` with their times."""
    return script_words(SCRIPT, DIGIT_WORDS)
