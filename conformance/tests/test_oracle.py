"""The oracle of coded audio: the words and spaces that a stream must have."""

from __future__ import annotations

import pytest

from wlk_conformance.interfaces import CHANGES_ITS_MIND, STAYS_UNDECIDED
from wlk_conformance.scripted import DIGIT_WORDS
from wlk_conformance.sessions.generated_session import VOCABULARIES, Tape, Vocabulary
from wlk_conformance.sessions.life_cycle import LifeCycle, StreamClock
from wlk_conformance.sessions.oracle import Oracle
from wlk_conformance.testing import CELL_SAMPLES, CELL_SECONDS
from wlk_core import ASRToken

DIGITS = Vocabulary(DIGIT_WORDS)
TAPE = Tape(tokens=((1, 0, 3), (2, 5, 3), (3, 10, 3)))
SHOWN = Tape(tokens=(*TAPE.tokens, (4, 15, 3)))


def finished_stream(*texts, pauses=(), cuts=(), cells=15):
    """Return a life cycle that committed *texts* at the times of TAPE, after pauses of 1 s."""
    clock = StreamClock()
    for sample in pauses:
        clock = clock.after(samples=sample - clock.samples).after(pause=1.0)
    clock = clock.after(samples=cells * CELL_SAMPLES - clock.samples)
    finished = LifeCycle(clock, cuts=list(cuts), is_complete=True)
    for (_, cell, length), text in zip(TAPE.tokens, texts, strict=False):
        start = cell * CELL_SECONDS + sum(sample <= cell * CELL_SAMPLES for sample in pauses)
        finished.tokens.append(ASRToken(start=start, end=start + length * CELL_SECONDS, text=text))
    return finished


def rules(finished, vocabulary=DIGITS, **how):
    """Return the rules that a life cycle of TAPE breaks."""
    return [found.rule for found in Oracle(finished, TAPE, vocabulary, **how).check_tokens()]


@pytest.mark.parametrize(
    ("name", "texts", "allowed"),
    [
        ("pieces", ("trans", "crip", "tion"), False),
        ("pieces", ("trans", " crip", "tion"), True),
        ("Hindi", ("नम", "स्", "ते"), False),
        ("Hindi", ("नम", " स्", "ते"), True),
        ("Chinese", ("你", "好", "、"), True),
        ("Chinese", ("你", " 好", "、"), False),
        ("space after", ("yes ", "no ", "up "), True),
        ("private use", ("\ue001", " \ue002", "\ue003x"), True),
    ],
)
def test_a_word_after_a_pause_is_joined_as_its_script_does(name, texts, allowed):
    """After a pause, a script with spaces gets one, unless the previous word ends with it."""
    committed = finished_stream(*texts, pauses=[4 * CELL_SAMPLES])

    assert rules(committed, VOCABULARIES[name]) == ([] if allowed else ["COM-03"])


def tokens(*texts, first=0, late=0.0):
    """Return *texts* at the times of the words of SHOWN, from the word *first* on."""
    return tuple(
        ASRToken(start=cell * CELL_SECONDS + late, end=(cell + 3) * CELL_SECONDS + late, text=text)
        for (_, cell, _), text in zip(SHOWN.tokens[first:], texts, strict=False)
    )


def shown_rules(committed, shown, vocabulary=DIGITS, *, cells=20, habits=()):
    """Return the rules that a hypothesis after *committed* tokens breaks."""
    read = LifeCycle(StreamClock(cells * CELL_SAMPLES), tokens=list(committed))
    read.read(shown)
    return [found.rule for found in Oracle(read, SHOWN, vocabulary, habits).check_readings()]


@pytest.mark.parametrize(
    ("shown", "rule"),
    [
        ((" two",), "HYP-02"),  # without the first word
        ((" two", " one"), "HYP-02"),
        ((" one", " three"), "HYP-02"),
        ((" o", " two"), "HYP-02"),  # not the newest
        ((" thanks",), "HYP-02"),
        ((" zero",), "HYP-02"),  # committed already
        (("one",), "COM-03"),
        ((" one", "two"), "COM-03"),
        (("  one",), "COM-03"),
    ],
)
def test_other_text_is_reported(shown, rule):
    """A word that is left out, repeated, moved or misspelled, and a lost space, are reported."""
    assert shown_rules(tokens("zero"), tokens(*shown, first=1)) == [rule]


def test_a_word_whose_audio_was_not_inserted_is_reported():
    """Every word shown lies in the audio inserted by then, whatever is inserted later."""
    read = LifeCycle(StreamClock(5 * CELL_SAMPLES), tokens=[*tokens("zero")])
    read.read(tokens(" one", first=1))
    read.clock = StreamClock(20 * CELL_SAMPLES)

    assert [found.rule for found in Oracle(read, SHOWN, DIGITS).check_readings()] == ["HYP-02"]


@pytest.mark.parametrize(("late", "broken"), [(0.0, []), (0.05, []), (0.3, ["TIME-05"])])
def test_a_hypothesis_has_the_times_of_its_audio(late, broken):
    """A word of the hypothesis has the time when it was spoken, within a cell."""
    assert shown_rules(tokens("zero"), tokens(" one", " two", first=1, late=late)) == broken


@pytest.mark.parametrize(
    ("habit", "text", "broken"),
    [
        (CHANGES_ITS_MIND, " two", []),
        (CHANGES_ITS_MIND, " three", []),
        (CHANGES_ITS_MIND, " four", ["HYP-02"]),
        (STAYS_UNDECIDED, " four", []),
        (STAYS_UNDECIDED, " two", ["HYP-02"]),
    ],
)
def test_the_mistakes_of_a_habit_are_accepted(habit, text, broken):
    """An engine that imitates a model may mistake a word of the hypothesis as the habit does."""
    assert shown_rules(tokens("zero"), tokens(text, first=1), habits=[habit]) == broken


def test_a_mistaken_word_is_not_taken_for_one_that_may_be_missing():
    """Two pauses cut the first zero into parts too short to be heard; the last word was five."""
    tape = Tape(tokens=((1, 0, 3), (1, 5, 3), (6, 10, 3)))
    finished = finished_stream("", "zero", " zero", pauses=(480, 640))
    del finished.tokens[0]
    habits = [CHANGES_ITS_MIND, STAYS_UNDECIDED]

    assert list(Oracle(finished, tape, DIGITS, habits=habits).check_tokens()) == []


@pytest.mark.parametrize(
    ("name", "committed", "shown", "broken"),
    [
        ("Chinese", ("你",), "好", []),
        ("Chinese", ("你",), " 好", ["COM-03"]),
        ("space after", ("yes ",), "no ", []),
        ("space after", ("yes ",), "no", []),
        ("space after", ("yes ",), " no ", ["COM-03"]),
        ("pieces", ("trans",), "crip", []),
        ("pieces", ("trans",), " crip", ["COM-03"]),
    ],
)
def test_a_hypothesis_has_the_spaces_of_its_script(name, committed, shown, broken):
    """A hypothesis has the same spaces as the text when it is committed."""
    assert shown_rules(tokens(*committed), tokens(shown, first=1), VOCABULARIES[name]) == broken
