"""Words that a cut of the window divides are committed once, whichever part is left."""

from __future__ import annotations

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core.plugins import (
    AlignAtt,
    AlignAttRecognizer,
    AlignedHypothesis,
    AlignedWord,
    Hypothesis,
    LocalAgreementRecognizer,
)
from wlk_core.streaming import Word

RATE = 16_000
FRAME = 320
FRAGMENT = 800  # samples of a word that an engine still takes for a word
SPARED = 0.25  # share of a word that may be cut off without changing its text
KNOWN = 0.5  # share of a word that must have been spoken to be recognised
NUMBERS = 1 << 20  # samples are numbered from here on, below 2**21: less than a minute
WINDOWS = ((1.0, 12.0, 28.0), (0.5, 4.0, 8.0), (1.0, 6.0, 16.0))  # tick, buffer, limit in seconds


@attrs.frozen
class Spoken:
    """A word of the script, in samples; a quiet closure of 40 ms begins at `closure`."""

    start: int
    stop: int
    text: str
    closure: int | None = None


def numbered_audio(script, samples):
    """Return loud words and quiet pauses, with its own number in every sample."""
    is_loud = np.zeros(samples, dtype=bool)
    for word in script:
        is_loud[word.start : word.stop] = True
        if word.closure is not None:
            is_loud[word.closure : word.closure + 640] = False
    numbers = NUMBERS + np.arange(samples, dtype=np.float64)
    return (numbers / np.where(is_loud, 2.0**22, 2.0**44)).astype(np.float32)


def first_number(audio):
    """Return the number of the first sample of *audio*."""
    return round(float(np.frexp(audio[0])[0]) * 2 * NUMBERS) - NUMBERS


@attrs.define
class FragmentEngine:
    """
    An engine that takes every part of a word for a word.

    The text of a word is right from half of it on.  Of a word whose start was cut off the engine
    emits the rest as `rest`, or nothing if that is None.  All times are `bias` seconds late, and
    up to `jitter` seconds elsewhere in each window.
    """

    script: tuple[Spoken, ...]
    bias: float = 0.0
    jitter: float = 0.0
    rest: str | None = " rest"
    is_undecided: bool = False
    calls: int = attrs.field(default=0, init=False)

    def transcribe(self, audio, *, prompt, language):
        """Transcribe for LocalAgreement; see Transcriber."""
        first = first_number(audio)
        self.calls += 1
        spelling = f"-{self.calls % 2}" if self.is_undecided else ""
        words = [
            attrs.evolve(word, text=word.text + spelling)
            for _, word in self._words(first, first, first + len(audio))
        ]
        return Hypothesis(words=tuple(words), language="en")

    def decode(self, audio, *, first_sample, remainder_samples, context, prompt, language, is_last):
        """Decode for AlignAtt, forced to begin with *context*; see AlignAttDecoder."""
        words = self._words(
            first_sample, first_sample + remainder_samples, first_sample + len(audio)
        )
        forced = context[-1].tokens[0] if context else -1
        return AlignedHypothesis(
            words=tuple(
                AlignedWord(
                    *attrs.astuple(word),
                    frames=(round(word.end * RATE - 1) // FRAME,),
                    tokens=(index,),
                )
                for index, word in words
                if index > forced
            )
        )

    def _words(self, start, audible, stop):
        """Return index and word of all from *audible* to *stop*; times count from *start*."""
        found = []
        floor = 0.0
        for index, spoken in enumerate(self.script):
            text = self._text(spoken, audible, stop)
            if text is not None:
                begin = max(spoken.start, start) / RATE + self._error(index, stop)
                end = min(spoken.stop, stop) / RATE + self._error(-1 - index, stop)
                floor = min(max(begin - start / RATE, floor), (stop - start) / RATE)
                end = min(max(end - start / RATE, floor + 0.02), (stop - start) / RATE)
                found.append((index, Word(floor, end, text)))
        return found

    def _text(self, spoken, start, stop):
        length = spoken.stop - spoken.start
        first, last = max(spoken.start, start), min(spoken.stop, stop)
        if last - first < FRAGMENT:
            return None
        if first - spoken.start > SPARED * length:
            return self.rest
        return spoken.text if last - first >= KNOWN * length else f" part{stop}"

    def _error(self, edge, stop):
        rng = np.random.default_rng([edge & 0xFFFF, stop])
        return self.bias + self.jitter * float(rng.uniform(-1, 1))


@st.composite
def scripts(draw, *, shortest, seconds):
    """Draw words of *shortest* to 3 s, with or without pauses of up to 6 s."""
    longest = draw(st.sampled_from([0.4, 1.0, 3.0]))
    pauses = draw(st.sampled_from([(0.0,), (0.0, 0.05, 0.3), (0.0, 0.05, 0.3, 1.0, 6.0)]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    script, start = [], round(rng.uniform(0.0, 1.0) * RATE)
    while True:
        length = np.exp(rng.uniform(np.log(shortest), np.log(max(longest, 1.2 * shortest))))
        stop = start + round(length * RATE)
        if stop > seconds * RATE:
            return tuple(script)
        has_closure = length > 0.25 and rng.random() < 0.3
        closure = round(rng.uniform(start + 480, stop - 1600)) if has_closure else None
        text = str(rng.choice([" one", " two", " seven"]))
        script.append(Spoken(start, stop, text, closure))
        start = stop + round(rng.uniform(0.5, 1.0) * rng.choice(pauses) * RATE)


@st.composite
def engines(draw, *, seconds=40, is_masked=False):
    """
    Draw a script, and an engine that errs by at most 0.1 s and half of the shortest word.

    AlignAtt hides the rest of a committed word from the engine, up to its reported end.  If that is
    late, the next word loses its start (*is_masked*), which must be at most SPARED of the word.
    """
    error = draw(st.sampled_from([0.0, 0.04, 0.07, 0.1]))
    jitter = min(error, draw(st.sampled_from([0.0, 0.02, 0.04])))
    bias = (error - jitter) * draw(st.sampled_from([-1, 1]))
    return FragmentEngine(
        draw(scripts(shortest=0.08 + error * (1 / SPARED if is_masked else 2), seconds=seconds)),
        bias=bias,
        jitter=jitter,
        rest=draw(st.sampled_from([None, " rest"])),
    )


def committed(recognizer, script, *, seconds=40):
    """Return the text of the words that *recognizer* commits, without undecided spellings."""
    recognizer.feed(numbered_audio(script, seconds * RATE))
    words = []
    while (step := recognizer.step(is_last=True)) is not None:
        words += [word.text.partition("-")[0] for word in step.committed]
    return words


def local_agreement(engine, window):
    """Return LocalAgreement on *engine*."""
    tick, buffer, limit = window
    return LocalAgreementRecognizer(
        engine.transcribe, tick_seconds=tick, buffer_seconds=buffer, max_seconds=limit
    )


def align_att(engine, window, *, cut_samples=FRAME):
    """Return AlignAtt on *engine*."""
    tick, buffer, limit = window
    return AlignAttRecognizer(
        engine.decode,
        policy=AlignAtt(border_frames=8, rewind_frames=25),
        frame_samples=FRAME,
        tick_seconds=tick,
        buffer_seconds=buffer,
        max_seconds=limit,
        cut_samples=cut_samples,
    )


def texts(script):
    """Return the text of every word."""
    return [word.text for word in script]


@pytest.mark.slow
@pytest.mark.parametrize("is_undecided", [False, True], ids=["agrees", "never agrees"])
@settings(max_examples=30, deadline=None)
@given(engines(), st.sampled_from(WINDOWS))
def test_local_agreement_commits_every_word_once_however_it_is_cut(is_undecided, engine, window):
    """Even an engine that takes the rest of a word for a word, or never agrees, repeats none."""
    engine.is_undecided = is_undecided

    assert committed(local_agreement(engine, window), engine.script) == texts(engine.script)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(engines(is_masked=True), st.sampled_from(WINDOWS), st.sampled_from([FRAME, 2 * RATE]))
def test_alignatt_commits_every_word_once_however_its_window_is_cut(engine, window, cut_samples):
    """The committed text is the script, with cuts at any frame and with cuts far apart."""
    recognizer = align_att(engine, window, cut_samples=cut_samples)

    assert committed(recognizer, engine.script) == texts(engine.script)


@pytest.mark.parametrize("make", [local_agreement, align_att], ids=["LocalAgreement", "AlignAtt"])
@pytest.mark.parametrize("seconds", [0.3, 0.96, 3.0])
def test_a_pause_does_not_cut_the_word_before_it(make, seconds):
    """When the pause is cut to three seconds, a word of any length stays whole."""
    word = Spoken(round((4.55 - seconds) * RATE), round(4.55 * RATE), " seven")
    script = (Spoken(0, 8000, " one"), word, Spoken(12 * RATE, 13 * RATE, " two"))

    for tick in (0.1, 0.25, 0.5, 1.0):
        assert committed(
            make(FragmentEngine(script), (tick, 12.0, 28.0)), script, seconds=20
        ) == texts(script)


def test_a_word_that_was_committed_before_its_end_is_not_cut():
    """Two hypotheses agree on a long word before it ends; its rest is not another word."""
    script = (
        Spoken(0, 8000, " one"),
        Spoken(2 * RATE, 5 * RATE, " seven"),
        Spoken(5 * RATE, 6 * RATE, " two"),
    )
    engine = FragmentEngine(script)

    assert committed(local_agreement(engine, (0.5, 4.0, 8.0)), script, seconds=12) == texts(script)


def test_the_next_word_is_not_taken_for_a_word_that_a_cut_left_too_little_of():
    """Equal words follow each other, and a cut leaves a fragment of the first one."""
    script = (
        Spoken(0, 6 * RATE, " one"),
        Spoken(6 * RATE, round(6.1 * RATE), " seven"),
        Spoken(round(6.1 * RATE), 8 * RATE, " seven"),
    )
    engine = FragmentEngine(script)

    assert committed(local_agreement(engine, (0.5, 4.0, 8.0)), script, seconds=12) == texts(script)
