"""An engine for coded audio, whose text and times are known exactly."""

from __future__ import annotations

from functools import partial

import attrs
import pytest

from wlk_conformance.testing import CELL_SAMPLES, CodedToken, encode, read_tokens, script_words
from wlk_core.plugins import (
    AlignAtt,
    AlignAttRecognizer,
    AlignedHypothesis,
    AlignedWord,
    Hypothesis,
    LocalAgreementRecognizer,
    OnlineStream,
    WorkCounters,
)
from wlk_core.streaming import Word

RATE = 16_000
FRAME = 320
DIGITS = (
    " zero", " one", " two", " three", " four", " five", " six", " seven", " eight", " nine",
)  # fmt: skip


@attrs.define
class CodedEngine:
    """
    Token *i* of coded audio is the word ``vocabulary[i - 1]``, recognised by its first half cell.

    Calls whose number, from 1, is in `fail_at` raise RuntimeError.  With `changes_mind` a token
    cut off by the end of the audio becomes the next word of the vocabulary, as with real models.
    """

    vocabulary: tuple[str, ...] = DIGITS
    fail_at: frozenset[int] = attrs.field(default=frozenset(), converter=frozenset, kw_only=True)
    changes_mind: bool = attrs.field(default=False, kw_only=True)
    before_call: object = attrs.field(default=lambda: None, kw_only=True)
    calls: int = attrs.field(default=0, init=False)
    longest: int = attrs.field(default=0, init=False)  # the most samples of a call

    def words(self, audio):
        """Count a call and return the words of *audio*, in seconds from its start."""
        self.calls += 1
        self.longest = max(self.longest, len(audio))
        self.before_call()
        if self.calls in self.fail_at:
            raise RuntimeError(f"call {self.calls} fails")
        return tuple(
            Word(token.start / RATE, token.end / RATE, self._text(token, samples=len(audio)), 1.0)
            for token in read_tokens(audio)
            if token.end - token.origin >= CELL_SAMPLES // 2 > token.start - token.origin
        )

    def _text(self, token, *, samples):
        is_mistaken = self.changes_mind and token.end == samples
        return self.vocabulary[token.id % len(self.vocabulary) if is_mistaken else token.id - 1]

    def transcribe(self, audio, *, prompt, language):
        """Transcribe for LocalAgreement; see Transcriber."""
        words = self.words(audio)
        work = WorkCounters(encoder_frames=-(-len(audio) // 160), decoder_forwards=len(words) + 1)
        return Hypothesis(words=words, language=language or "en", work=work)

    def decode(self, audio, *, first_sample, remainder_samples, context, prompt, language, is_last):
        """Decode for AlignAtt, attending to the last frame of each word; see AlignAttDecoder."""
        words = tuple(
            AlignedWord(*attrs.astuple(word), frames=(round(word.end * RATE - 1) // FRAME,))
            for word in self.words(audio)[len(context) :]
        )
        return AlignedHypothesis(words=words, language=language or "en")

    def stream(self, *, policy="local-agreement", language=None):
        """Return a stream that ticks every second."""
        if policy == "local-agreement":
            make = partial(LocalAgreementRecognizer, self.transcribe, language=language)
        else:
            rule = AlignAtt(border_frames=8, rewind_frames=25)
            make = partial(
                AlignAttRecognizer, self.decode, policy=rule, frame_samples=FRAME, language=language
            )
        return OnlineStream(make)


@attrs.frozen(eq=False)
class Speech:
    """Coded digits, with their words and their text."""

    audio: object
    words: tuple
    text: str


@pytest.fixture(scope="session")
def speech():
    """Return thirty digits in 15.2 s."""
    script = [CodedToken(1 + i * 7 % 10, 2 + 6 * i, 2 + i % 4) for i in range(30)]
    audio, words = encode(script, cells=190), script_words(script, DIGITS)
    audio.flags.writeable = False
    return Speech(audio, words, "".join(word.text for word in words).strip())


@pytest.fixture(scope="session")
def coded_engine():
    """Return the class CodedEngine; session-scoped, because property tests accept no others."""
    return CodedEngine


@pytest.fixture
def engine():
    """Return an engine for digits that never fails."""
    return CodedEngine()
