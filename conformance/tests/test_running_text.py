"""The oracle of hypotheses: which text may follow what is committed."""

from __future__ import annotations

import pytest

from wlk_conformance.scripted import DIGIT_WORDS
from wlk_conformance.seams import CHANGES_ITS_MIND, STAYS_UNDECIDED
from wlk_conformance.sessions.oracle import Life
from wlk_conformance.sessions.running_text import check_running_text
from wlk_conformance.sessions.session import VOCABULARIES, Tape, Vocabulary
from wlk_conformance.testing import CELL_SAMPLES, CELL_SECONDS
from wlk_core import ASRToken

DIGITS = Vocabulary(DIGIT_WORDS)
TAPE = Tape(tokens=[(1, 0, 3), (2, 5, 3), (3, 10, 3), (4, 15, 3)])


def tokens(*texts, first=0, late=0.0):
    """Return *texts* at the times of the words of TAPE, from the word *first* on."""
    return tuple(
        ASRToken(start=cell * CELL_SECONDS + late, end=(cell + 3) * CELL_SECONDS + late, text=text)
        for (_, cell, _), text in zip(TAPE.tokens[first:], texts, strict=False)
    )


def rules(committed, shown, vocabulary=DIGITS, *, cells=20, habits=()):
    """Return the rules that a hypothesis after *committed* tokens breaks."""
    life = Life()
    life.clock.add_audio(cells * CELL_SAMPLES)
    life.tokens += committed
    life.read(shown)
    return [v.rule for v in check_running_text(life, TAPE, vocabulary, habits=habits)]


@pytest.mark.parametrize("text", [" t", " tw", " two"])
def test_the_newest_word_may_be_incomplete(text):
    """The letters of a word that are decoded so far are a hypothesis."""
    assert [] == rules(tokens("zero", " one"), tokens(text, first=2))


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
    assert [rule] == rules(tokens("zero"), tokens(*shown, first=1))


def test_a_word_whose_audio_was_not_inserted_is_reported():
    """What is shown is in the audio so far, whatever comes later."""
    life = Life()
    life.clock.add_audio(5 * CELL_SAMPLES)
    life.tokens += tokens("zero")
    life.read(tokens(" one", first=1))
    life.clock.add_audio(15 * CELL_SAMPLES)

    assert ["HYP-02"] == [v.rule for v in check_running_text(life, TAPE, DIGITS)]


@pytest.mark.parametrize(("late", "broken"), [(0.0, []), (0.05, []), (0.3, ["TIME-05"])])
def test_a_hypothesis_has_the_times_of_its_audio(late, broken):
    """A word of the hypothesis lies where it was spoken, within a cell."""
    assert broken == rules(tokens("zero"), tokens(" one", " two", first=1, late=late))


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
    assert broken == rules(tokens("zero"), tokens(text, first=1), habits=[habit])


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
    """What is shown has the spaces with which it would be committed."""
    assert broken == rules(tokens(*committed), tokens(shown, first=1), VOCABULARIES[name])


def test_a_word_that_may_be_missing_is_passed_over():
    """Of a word that a flush cuts too short for any engine, none needs to be shown."""
    life = Life()
    tape = Tape(tokens=[(1, 0, 3), (2, 5, 1), (3, 10, 3)])
    life.cuts = [5 * CELL_SAMPLES + CELL_SAMPLES // 2 - 1, 5 * CELL_SAMPLES + CELL_SAMPLES // 2]
    life.clock.add_audio(20 * CELL_SAMPLES)
    life.tokens += tokens("zero")
    life.read(tokens(" two", first=2))

    assert [] == [v.rule for v in check_running_text(life, tape, DIGITS)]
