"""The language of a stream: forced, detected, and detected again after a pause."""

import attrs
import numpy as np
import pytest

from wlk_core.plugins import (
    SAMPLE_RATE,
    AlignAtt,
    AlignAttRecognizer,
    AlignedHypothesis,
    AlignedWord,
    Hypothesis,
    LocalAgreementRecognizer,
    Word,
    WorkCounters,
)
from wlk_frameworks.long_form import LongFormRecognizer

FRAME = 320
LIVE = ("local-agreement", "alignatt")


class Engine:
    """An engine that emits a word every half second, and detects languages as in *detected*."""

    def __init__(self, detected):
        self.detected = detected  # seconds of audio in, a language and its probability out
        self.calls = []

    def words(self, audio, language):
        """Return a word for each whole half second, in the language of the call."""
        return [
            Word(n / 2, n / 2 + 0.5, f" {language}{n}")
            for n in range(2 * len(audio) // SAMPLE_RATE)
        ]

    def transcribe(self, audio, *, prompt, language):
        """Answer a call of LocalAgreement or long-form."""
        self.calls.append((prompt, language))
        found, probability = self.detected(len(audio) / SAMPLE_RATE)
        return Hypothesis(
            words=tuple(self.words(audio, language or found)),
            language=language or found,
            language_probability=None if language else probability,
            work=WorkCounters(encoder_frames=1),
        )

    def decode(self, audio, *, context, prompt, language, **_):
        """Answer a call of AlignAtt."""
        answer = self.transcribe(audio, prompt=prompt, language=language)
        words = [
            AlignedWord(*attrs.astuple(word), frames=(round(word.end * SAMPLE_RATE / FRAME),))
            for word in answer.words[len(context) :]
        ]
        return AlignedHypothesis(
            words=tuple(words),
            language=answer.language,
            language_probability=answer.language_probability,
            work=answer.work,
        )

    def recognizer(self, policy, language=None):
        """Return a recognizer of *policy*."""
        if policy == "local-agreement":
            return LocalAgreementRecognizer(self.transcribe, language=language, tick_seconds=0.6)
        if policy == "alignatt":
            return AlignAttRecognizer(
                self.decode,
                policy=AlignAtt(border_frames=15, rewind_frames=200),
                frame_samples=FRAME,
                language=language,
                tick_seconds=0.6,
            )
        return LongFormRecognizer(self.transcribe, language=language)


def hear(recognizer, seconds, *, is_last=True):
    """Feed an utterance and return the text that is final."""
    recognizer.feed(np.zeros(round(seconds * SAMPLE_RATE), np.float32))
    text = ""
    while step := recognizer.step(is_last=is_last):
        text += "".join(word.text for word in step.committed)
    if is_last:
        recognizer.start_utterance(text)
    return text.split()


def after_english(policy):
    """Return an engine and a recognizer after an utterance that certainly was English."""
    engine = Engine(lambda _: ("en", 0.95))
    recognizer = engine.recognizer(policy)
    hear(recognizer, 2.1)
    return engine, recognizer


@pytest.mark.parametrize("policy", [*LIVE, "long-form"])
def test_each_utterance_is_written_in_its_own_language(policy):
    """The second call has no prompt, because the prompt would be text in the first language."""
    engine = Engine(lambda _: ("en", 0.95))
    recognizer = engine.recognizer(policy)

    assert hear(recognizer, 3.1) == ["en0", "en1", "en2", "en3", "en4", "en5"]
    engine.detected = lambda _: ("fr", 0.8)
    assert hear(recognizer, 3.1) == ["fr0", "fr1", "fr2", "fr3", "fr4", "fr5"]
    assert recognizer.language == "fr"
    assert engine.calls[-1] == ("", "fr")
    assert len(engine.calls) == recognizer.work.encoder_frames  # including the repeated ones


@pytest.mark.parametrize("policy", [*LIVE, "long-form"])
def test_a_forced_language_stays_whatever_is_heard(policy):
    """No call detects a language."""
    engine = Engine(lambda _: ("fr", 0.99))
    recognizer = engine.recognizer(policy, language="en")

    for _ in range(2):
        assert hear(recognizer, 2.1) == ["en0", "en1", "en2", "en3"]
    assert {language for _, language in engine.calls} == {"en"}


@pytest.mark.parametrize("policy", LIVE)
def test_no_word_is_final_before_the_language_is(policy):
    """Whisper detects English in the first second of a French sentence, and French later."""
    engine = Engine(lambda seconds: ("en", 0.7) if seconds < 1.5 else ("fr", 0.7))
    recognizer = engine.recognizer(policy)

    assert hear(recognizer, 1.4, is_last=False) == []
    assert [word.text.strip() for word in recognizer.hypothesis] == ["en0", "en1"]
    assert hear(recognizer, 0.9) == ["fr0", "fr1", "fr2", "fr3"]


@pytest.mark.parametrize("policy", LIVE)
def test_a_language_that_stays_unlikely_changes_nothing(policy):
    """After three seconds words are committed in the language of the stream."""
    engine, recognizer = after_english(policy)
    engine.detected = lambda _: ("nn", 0.3)

    assert hear(recognizer, 2.9, is_last=False) == []
    assert {word[:2] for word in hear(recognizer, 3.1, is_last=False)} == {"en"}
    assert recognizer.language == "en"


@pytest.mark.parametrize("probability", [0.4, 0.8])
@pytest.mark.parametrize("policy", LIVE)
def test_a_short_utterance_stays_in_the_language_of_the_stream(policy, probability):
    """Its end lies on a tick, so no audio is left to decode."""
    engine, recognizer = after_english(policy)
    engine.detected = lambda _: ("cy", probability)

    assert hear(recognizer, 1.2) == ["en0", "en1"]


def test_an_engine_that_no_longer_knows_how_likely_a_language_is_loses_no_word():
    """At the end of the utterance the words of the last call are final."""
    engine = Engine(lambda seconds: ("en", 0.5 if seconds < 1 else None))
    recognizer = engine.recognizer("alignatt")

    assert hear(recognizer, 1.2) == ["en0", "en1"]


@pytest.mark.parametrize("policy", LIVE)
def test_a_step_that_failed_is_repeated_with_the_same_words(policy):
    """A failure of the second call of a step changes neither language nor text."""
    engine, recognizer = after_english(policy)
    engine.detected = lambda _: ("fr", 0.95)
    made = len(engine.calls)
    recognizer.feed(np.zeros(round(1.3 * SAMPLE_RATE), np.float32))

    answer = engine.words

    def fail_when_forced(audio, language):
        if engine.calls[-1][1] == "fr":
            raise RuntimeError("the engine failed")
        return answer(audio, language)

    engine.words = fail_when_forced
    with pytest.raises(RuntimeError):
        recognizer.step(is_last=False)
    assert recognizer.language == "en"
    engine.words = answer
    assert len(engine.calls) == made + 2
    assert hear(recognizer, 0) == ["fr0", "fr1"]
