"""Both live policies with engines that misbehave: bounds and order always hold."""

from __future__ import annotations

from functools import partial
import itertools
import math

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance import EngineFaults
from wlk_conformance.testing import CodedToken, StreamDriver, encode, partition, script_words
from wlk_core.plugins import (
    AlignAtt,
    AlignAttRecognizer,
    AlignedHypothesis,
    AlignedWord,
    EngineCalls,
    Hypothesis,
    LocalAgreementRecognizer,
    OnlineStream,
)
from wlk_core.streaming import Word
from wlk_frameworks.long_form import LongFormRecognizer

RATE = 16_000
FRAME = 320
POLICIES = ("local-agreement", "alignatt")
policies = pytest.mark.parametrize("policy", POLICIES)


class Engine:
    """An engine for both policies whose words depend only on the audio; it records its calls."""

    def __init__(self, words=lambda _audio: (), *, frames=None, language="en"):
        self.words, self.language = words, language
        self.frames = frames or (lambda word: (round(word.middle * RATE) // FRAME,))
        self.lengths, self.prompts = [], []

    def transcribe(self, audio, *, prompt, language):
        """Transcribe for LocalAgreement; see Transcriber."""
        self.lengths.append(len(audio))
        self.prompts.append(prompt)
        return Hypothesis(words=tuple(self.words(audio)), language=language or self.language)

    def decode(self, audio, *, context, prompt, language, **_):
        """Decode for AlignAtt; see AlignAttDecoder."""
        answer = self.transcribe(audio, prompt=prompt, language=language)
        words = [
            AlignedWord(*attrs.astuple(word), frames=self.frames(word)) for word in answer.words
        ]
        return AlignedHypothesis(words=tuple(words[len(context) :]), language=answer.language)


def over(policy, engine, **options):
    """Return a recognizer of *policy* on an engine, or on the functions that run one."""
    if policy == "local-agreement":
        return LocalAgreementRecognizer(engine.transcribe, **options)
    rule = AlignAtt(border_frames=8, rewind_frames=50)
    return AlignAttRecognizer(engine.decode, policy=rule, frame_samples=FRAME, **options)


def run(recognizer, seconds):
    """Feed *seconds* of noise in chunks and return every step."""
    steps = []
    for _ in range(round(2 * seconds)):
        recognizer.feed(np.full(RATE // 2, 0.1, dtype=np.float32))
        while (step := recognizer.step(is_last=False)) is not None:
            steps.append(step)
    while (step := recognizer.step(is_last=True)) is not None:
        steps.append(step)
    return steps


@policies
@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.05, 0.5, 2.0]),
    st.sampled_from([(1.0, 12.0), (10.0, 25.0), (0.2, 3.0), (3.0, 25.0)]),
)
def test_no_engine_is_ever_given_more_than_its_window(policy, seed, density, times):
    """However unstable its words, the buffer stays bounded and committed words stay in order."""
    rng = np.random.default_rng(seed)

    def words(audio):
        seconds = len(audio) / RATE
        starts = np.sort(rng.uniform(-0.5, seconds + 0.5, rng.poisson(density * seconds)))
        texts = rng.choice([" one", " two", ",", " three"], len(starts))
        return [
            Word(float(start), float(start + rng.uniform(-0.1, 1.5)), str(text))
            for start, text in zip(starts, texts, strict=True)
        ]

    def frames(_word):
        return tuple(rng.integers(-5, 28 * 50, rng.integers(1, 4)).tolist())

    engine = Engine(words, frames=frames)
    recognizer = over(policy, engine, tick_seconds=times[0], buffer_seconds=times[1])
    driver = StreamDriver(OnlineStream(lambda: recognizer))
    driver.feed(np.full(90 * RATE, 0.1, dtype=np.float32))
    driver.finish()
    starts = [token.start for token in driver.tokens]

    assert max(engine.lengths) <= 28 * RATE
    assert starts == sorted(starts)
    assert all(0.0 <= token.start <= token.end <= 90.0 for token in driver.tokens)
    assert driver.processed_up_to == 90.0
    assert all(len(prompt) <= 200 for prompt in engine.prompts)


@policies
@pytest.mark.parametrize(
    ("prompt", "given_prompt"),
    [("a" * 150 + " " + "b" * 120, "b" * 120), ("c" * 500, "c" * 200)],
    ids=["words", "a word"],
)
def test_the_prompt_is_whole_words(policy, prompt, given_prompt):
    """Long text is cut between words, and a word longer than the prompt is cut inside."""
    engine = Engine()
    run(over(policy, engine, prompt=prompt), 1)

    assert engine.prompts[0] == given_prompt


@policies
def test_audio_leaves_the_buffer_only_after_it_was_decoded(policy):
    """Even an engine that recognises no words gets every sample before it is dropped."""
    engine = Engine()
    steps = run(over(policy, engine), 20)
    ends = [step.consumed_samples for step in steps]
    starts = [end - length for end, length in zip(ends, engine.lengths, strict=True)]

    assert starts[0] == 0
    assert all(start <= end for end, start in zip(ends, starts[1:], strict=False))
    assert max(engine.lengths) <= 5 * RATE


@policies
def test_a_word_that_spans_the_whole_buffer_is_cut(policy):
    """An endless word that differs at every call does not make the buffer longer."""
    number = itertools.count()
    engine = Engine(
        lambda audio: [Word(0.0, len(audio) / RATE, f" la{next(number)}")],
        frames=lambda word: (int(word.end * 50) - 1,),
    )
    run(over(policy, engine), 120)

    assert max(engine.lengths) <= 28 * RATE


@policies
@pytest.mark.parametrize("seconds", [2.0, 2.5])
def test_a_flush_that_commits_fixes_the_language_too(policy, seconds):
    """An utterance that ends on a tick, or after one, has the language of its words."""
    engine = Engine(
        lambda audio: [Word(1.7, 1.9, " un")] if len(audio) >= 2 * RATE else [],
        frames=lambda _word: (99,),
        language="fr",
    )
    recognizer = over(policy, engine)
    run(recognizer, seconds)

    assert recognizer.language == "fr"


@pytest.mark.parametrize("policy", [*POLICIES, "long-form"])
@pytest.mark.parametrize("is_last", [False, True])
def test_a_failed_step_leaves_everything_as_it_was(policy, is_last):
    """After a failure the step is repeated on the same audio with the same arguments."""
    engine, calls = Engine(lambda _audio: [Word(0.1, 0.5, " one")]), []

    def failing_once(function, audio, **arguments):
        calls.append((audio.tobytes(), arguments))
        if len(calls) == 2:
            raise MemoryError
        return function(audio, **arguments)

    class Failing:
        transcribe = staticmethod(partial(failing_once, engine.transcribe))
        decode = staticmethod(partial(failing_once, engine.decode))

    if policy == "long-form":
        recognizer = LongFormRecognizer(Failing.transcribe, prompt="names", max_seconds=1.0)
    else:
        recognizer = over(policy, Failing, prompt="names")
    recognizer.feed(np.arange(2.5 * RATE, dtype=np.float32))
    recognizer.step(is_last=is_last)
    with pytest.raises(MemoryError):
        recognizer.step(is_last=is_last)
    recognizer.step(is_last=is_last)

    assert calls[1] == calls[2]


@policies
@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("call", range(1, 16))
def test_an_answer_cut_short_loses_no_word(speech, engine, policy, share, call):
    """The audio of the missing text is decoded again, even if the buffer is cut at that time."""
    calls = EngineCalls()
    faults = EngineFaults(calls)
    faults.cut_short = {call: share}

    class Wrapped:
        transcribe = calls.wrap(engine.transcribe)
        decode = calls.wrap(engine.decode)

    recognizer = over(policy, Wrapped, buffer_seconds=4.0)  # short enough to be cut several times
    driver = StreamDriver(OnlineStream(lambda: recognizer))
    driver.feed(speech.audio)
    driver.finish()

    assert faults.cut_count == 1
    assert driver.text == speech.text


@policies
def test_words_that_an_engine_takes_back_are_shown_and_never_committed(coded_engine, policy):
    """At the end of a buffer an engine takes the first half of a word for another word."""
    script = [CodedToken(1 + i * 7 % 10, 1 + 5 * i, 4) for i in range(40)]
    engine = coded_engine(changes_mind=True)
    truth = [word.text for word in script_words(script, engine.vocabulary)]
    driver, shown = StreamDriver(engine.stream(policy=policy)), []
    for chunk in partition(encode(script, cells=210), 0.5):
        driver.feed(chunk)
        shown.append([*driver.tokens, *driver.processor.get_buffer().tokens])
    driver.finish()

    assert driver.text == "".join(truth).strip()
    assert any(
        [token.text.strip() for token in tokens] != [text.strip() for text in truth[: len(tokens)]]
        for tokens in shown
    )


class Native(LongFormRecognizer):
    """Emit the words of an engine unchanged, once the utterance is complete."""

    def step(self, *, is_last):
        """Restore the words, which long-form moved into the audio."""
        audio = self._audio.view(self._audio.start, self._audio.end)
        step = super().step(is_last=is_last)
        if step is None:
            return None
        words = self._transcribe(audio, prompt="", language=None).words
        return attrs.evolve(step, committed=words, misplaced_words=0)


@pytest.mark.parametrize("policy", [*POLICIES, "native"])
@pytest.mark.parametrize(
    ("start", "is_outside"),
    [
        (lambda _: 4.6, True),
        (lambda _: 400.0, True),
        (lambda _: -0.6, True),
        (lambda _: -math.inf, True),
        (lambda seconds: seconds - 0.3, False),
        (lambda seconds: seconds + 0.4, False),  # the padding right after the audio
    ],
)
def test_a_word_outside_the_audio_is_counted_and_logged_once(policy, start, is_outside, caplog):
    """With any recognizer, the token lies in the audio and one line of the log names the fault."""

    def words(audio):
        time = start(len(audio) / RATE)
        return [Word(time, time + 0.2, " word")]

    engine = Engine(words, frames=lambda _word: (2,))
    recognizer = Native(engine.transcribe) if policy == "native" else over(policy, engine)
    driver = StreamDriver(OnlineStream(lambda: recognizer))
    driver.feed(np.zeros(4 * RATE, np.float32), chunk_seconds=4.0)
    driver.finish()

    assert (driver.processor.stats.misplaced_words >= 1) == is_outside
    assert len(caplog.records) == is_outside
    assert ("outside their audio" in caplog.text) == is_outside
    assert all(0 <= token.start <= token.end <= 4.0 for token in driver.tokens)
