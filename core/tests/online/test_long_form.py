"""LongFormRecognizer: every word once, one call for each window, whatever the engine does."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.testing import CodedToken, StreamDriver, encode, partition, script_words
from wlk_core.plugins import Hypothesis, OnlineStream
from wlk_core.streaming import Word
from wlk_frameworks.long_form import LongFormRecognizer

RATE = 16_000
WINDOW = 4.0  # seconds; short, so that a test crosses many boundaries


def transcribed(engine, audio, *, chunk_seconds=1.0, **options):
    """Run *audio* through a stream and return its driver."""
    options = {"max_seconds": WINDOW, **options}
    driver = StreamDriver(OnlineStream(lambda: LongFormRecognizer(engine.transcribe, **options)))
    for chunk in partition(audio, chunk_seconds):
        driver.insert(chunk)
        driver.drain()
    driver.finish()
    return driver


def texts(words):
    """Return the words without their spaces."""
    return [word.text.strip() for word in words]


@st.composite
def scripts(draw, *, gaps=(0, 0, 1, 2, 9)):
    """Draw a script with pauses of 0 to 0.7 s, in which words may be repeated."""
    script, cell = [], draw(st.integers(0, 60))
    for _ in range(draw(st.integers(1, 60))):
        script.append(CodedToken(draw(st.integers(1, 3)), cell, draw(st.integers(2, 6))))
        cell += script[-1].cells + draw(st.sampled_from(gaps))
    return script


class EarlyEngine:
    """A coded engine that ends its text early, after a varying number of words."""

    def __init__(self, engine, seed):
        self.engine = engine
        self.rng = np.random.default_rng(seed)

    def transcribe(self, audio, *, prompt, language):
        """Return the first words of a window, at least one."""
        answer = self.engine.transcribe(audio, prompt=prompt, language=language)
        return Hypothesis(words=answer.words[: self.rng.integers(1, 12)], language="en")


@settings(max_examples=25, deadline=None)
@given(scripts(), st.sampled_from([0.3, 1.0, 5.0, 60.0]))
def test_every_word_is_committed_once(coded_engine, script, chunk_seconds):
    """No window boundary loses or doubles a word, even if words repeat or pauses are missing."""
    engine = coded_engine()
    driver = transcribed(engine, encode(script), chunk_seconds=chunk_seconds)
    truth = script_words(script, engine.vocabulary)

    assert texts(driver.tokens) == texts(truth)
    assert [word.start for word in truth] == pytest.approx(
        [token.start for token in driver.tokens], abs=0.1
    )


@settings(max_examples=25, deadline=None)
@given(scripts(), st.integers(0, 10**6))
def test_an_engine_that_ends_early_loses_no_word(coded_engine, script, seed):
    """The audio after the last word of an answer is decoded again."""
    engine = coded_engine()
    # Words missing from the answer for an utterance's last window are lost.
    audio = encode(script, cells=script[-1].start + script[-1].cells + 60)
    driver = transcribed(EarlyEngine(engine, seed), audio)
    truth = texts(script_words(script, engine.vocabulary))
    last = [token.start for token in driver.tokens if token.start < len(audio) / RATE - WINDOW]

    assert texts(driver.tokens)[: len(last)] == truth[: len(last)]


def test_the_end_of_an_utterance_that_an_answer_lacks_is_decoded_again(engine):
    """An answer that stops seconds before the end does not complete the last window."""
    script = [CodedToken(1 + i, 10 * i, 6) for i in range(10)]
    lengths = []

    def early(audio, *, prompt, language):
        lengths.append(len(audio))
        words = engine.transcribe(audio, prompt=prompt, language=language).words
        return Hypothesis(words=words[: 4 if len(lengths) == 1 else None], language="en")

    recognizer = LongFormRecognizer(early)
    recognizer.feed(encode(script, cells=100))
    committed = []
    while (step := recognizer.step(is_last=True)) is not None:
        committed += step.committed

    assert texts(committed) == texts(script_words(script, engine.vocabulary))
    assert len(lengths) == 2


@settings(max_examples=25, deadline=None)
@given(scripts(gaps=(0,)))
def test_speech_without_a_pause_is_cut_between_words(coded_engine, script):
    """Words that follow each other without a gap stay whole."""
    engine = coded_engine(changes_mind=True)
    cells = script[-1].start + script[-1].cells
    driver = transcribed(engine, encode(script, cells=cells + 2))

    assert texts(driver.tokens) == texts(script_words(script, engine.vocabulary))


def test_an_engine_call_is_made_for_each_window(engine, speech):
    """Fifteen seconds cost five windows of 4 s, not one call a second."""
    driver = transcribed(engine, speech.audio)

    assert driver.text == speech.text
    assert engine.calls == 5


def test_text_is_committed_up_to_the_widest_pause(engine):
    """Words after the cut are shown, and decoded again in the next window, after a prompt."""
    script = [CodedToken(1 + i, 6 * i + 4 * (i >= 7), 4) for i in range(10)]
    prompts = []

    class Engine:
        def transcribe(self, audio, *, prompt, language):
            prompts.append(prompt)
            return engine.transcribe(audio, prompt=prompt, language=language)

    recognizer = LongFormRecognizer(Engine().transcribe, max_seconds=WINDOW)
    recognizer.feed(encode(script, cells=60))
    step = recognizer.step(is_last=False)
    shown = recognizer.hypothesis
    last = recognizer.step(is_last=True)

    assert texts(step.committed) == ["zero", "one", "two", "three", "four", "five", "six"]
    assert step.consumed_samples == WINDOW * RATE
    assert texts(shown) == ["seven"]
    assert texts(last.committed) == ["seven", "eight", "nine"]
    assert prompts == ["", "zero one two three four five six"]
    assert recognizer.step(is_last=True) is None


def test_windows_without_words_are_passed_over(engine):
    """A minute of silence costs a call per two thirds of a window, and loses no word after it."""
    script = [CodedToken(3, 750, 4)]
    driver = transcribed(engine, encode(script, cells=800))

    assert engine.calls <= 64 / (WINDOW * 2 / 3) + 1
    assert texts(driver.tokens) == ["two"]


@pytest.mark.parametrize(
    "words", [[(0.0, 4.0)], [(0.0, 0.1)], [(0.0, 0.0)], [(0.0, 0.5), (0.6, 4.0)]]
)
def test_a_window_always_moves_on(words):
    """Even words of impossible lengths do not make a window begin where the last one did."""
    lengths = []

    def transcribe(audio, *, prompt, language):
        lengths.append(len(audio))
        return Hypothesis(words=tuple(Word(start, end, " la") for start, end in words))

    recognizer = LongFormRecognizer(transcribe, max_seconds=WINDOW)
    recognizer.feed(np.full(20 * RATE, 0.1, dtype=np.float32))
    steps = 0
    while recognizer.step(is_last=True) is not None:
        steps += 1

    assert max(lengths) <= WINDOW * RATE
    assert steps <= 20 / 0.2


def test_a_new_utterance_begins_with_the_transcript_as_prompt():
    """After a pause the engine gets the end of the committed text."""
    prompts = []

    def transcribe(audio, *, prompt, language):
        prompts.append(prompt)
        return Hypothesis()

    recognizer = LongFormRecognizer(transcribe)
    recognizer.start_utterance("one two")
    recognizer.feed(np.zeros(RATE, dtype=np.float32))
    recognizer.step(is_last=True)

    assert prompts == ["one two"]
    assert recognizer.language is None
