"""The oracle of coded audio: which words and spaces a life of a stream must have committed."""

from __future__ import annotations

import pytest

from wlk_conformance.compare import align
from wlk_conformance.scripted import DIGIT_WORDS
from wlk_conformance.seams import CHANGES_ITS_MIND
from wlk_conformance.sessions.oracle import Life, check_life
from wlk_conformance.sessions.session import VOCABULARIES, Tape, Vocabulary
from wlk_conformance.testing import CELL_SAMPLES, CELL_SECONDS
from wlk_core import ASRToken

DIGITS = Vocabulary(DIGIT_WORDS)
TAPE = Tape(tokens=[(1, 0, 3), (2, 5, 3), (3, 10, 3)])


def life(*texts, pauses=(), cuts=(), cells=15):
    """Return a finished life that committed *texts* at the times of TAPE, after pauses of 1 s."""
    finished = Life(is_complete=True, cuts=list(cuts))
    for sample in pauses:
        finished.clock.add_audio(sample - finished.clock.samples)
        finished.clock.add_pause(1.0)
    finished.clock.add_audio(cells * CELL_SAMPLES - finished.clock.samples)
    for (_, cell, length), text in zip(TAPE.tokens, texts, strict=False):
        start = cell * CELL_SECONDS + sum(sample <= cell * CELL_SAMPLES for sample in pauses)
        finished.tokens.append(ASRToken(start=start, end=start + length * CELL_SECONDS, text=text))
    return finished


def rules(finished, vocabulary=DIGITS, **how):
    """Return the rules that a life of TAPE breaks."""
    return [violation.rule for violation in check_life(finished, TAPE, vocabulary, **how)]


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
    """After a pause a script with spaces gets one, unless the word before brings it."""
    committed = life(*texts, pauses=[4 * CELL_SAMPLES])

    assert ([] if allowed else ["COM-03"]) == rules(committed, VOCABULARIES[name])


def test_a_space_inside_an_utterance_is_the_words_own():
    """Where no pause and no flush lies between two pieces, a space between them is invented."""
    assert ["COM-03"] == rules(life("trans", " crip", "tion"), VOCABULARIES["pieces"])


def test_a_flush_without_a_pause_leaves_the_join_open():
    """An engine may go on with its text over a flush, or begin anew."""
    for texts in (("trans", " crip", "tion"), ("trans", "crip", "tion")):
        committed = life(*texts, cuts=[4 * CELL_SAMPLES])

        assert [] == rules(committed, VOCABULARIES["pieces"])


@pytest.mark.parametrize(("habits", "broken"), [([CHANGES_ITS_MIND], []), ([], ["IN-05"])])
@pytest.mark.parametrize("last", [" three", " four"])
def test_an_engine_that_changes_its_mind_mistakes_a_word_at_the_end(last, habits, broken):
    """The last word ends with the audio, so it may be one of the next two of the vocabulary."""
    assert broken == rules(life("zero", " one", last, cells=13), habits=habits)


def test_a_word_that_may_be_missing_is_left_out_first():
    """Of two equal words the one that may be missing is taken for the missing one."""
    assert [(0, 0)] == align(["six", "six"], ["six"], omissions=[1.0, 0.5])
    assert [(1, 0)] == align(["six", "six"], ["six"], omissions=[0.5, 1.0])
