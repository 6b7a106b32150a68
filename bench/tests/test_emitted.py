from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import pytest

from wlk_bench.events import Commit, EventLog, Header, HypothesisShown, TimedText
from wlk_bench.metrics.emitted import committed_words, screens
from wlk_bench.reference import Reference

from .conftest import random_log, steady


def joined(*texts, unit="word"):
    """Join tokens of a second each."""
    events = tuple(
        Commit(audio_time=i, wall=i + 0.5, tokens=(TimedText(i, i + 1, text),))
        for i, text in enumerate(texts)
    )
    header = Header(audio="x", audio_seconds=len(texts), reference=Reference(text=""))
    return committed_words(EventLog(header=header, events=events), unit)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ((" one", " two"), ["one", "two"]),
        ((" un", "believ", "able"), ["unbelievable"]),
        ((" end", ".", " Next"), ["end.", "Next"]),
        ((" in one", " go"), ["in", "one", "go"]),
        (("two ", "words"), ["two", "words"]),
        ((), []),
    ],
    ids=["words", "pieces", "punctuation", "several", "space-after", "nothing"],
)
def test_tokens_become_words_by_their_spacing(texts, words):
    """White space alone separates words."""
    assert words == [word.text for word in joined(*texts)]


def test_a_word_spans_its_tokens_and_is_emitted_with_the_last():
    """Its start is that of the first token, its end and emission those of the last one."""
    (word,) = joined(" un", "believ", "able")

    assert (0, 3) == (word.start, word.end)
    assert (2, 2.5) == (word.audio_time, word.wall)


def test_scripts_without_spaces_are_counted_by_character():
    """A unit is a character, with the time of its token."""
    words = joined("你好", "吗", unit="char")

    assert ["你", "好", "吗"] == [word.text for word in words]
    assert (0, 1) == (words[1].start, words[1].end)


@steady
@given(st.integers(0, 10_000))
def test_screens_are_the_texts_that_were_displayed(seed):
    """Applied one after another they give the text on the screen."""
    log = random_log(seed, segments=3)
    committed, expected, hypothesis = [], [], ()
    for event in log.events:
        if isinstance(event, Commit):
            committed += [token.text.strip() for token in event.tokens]
        elif isinstance(event, HypothesisShown):
            hypothesis = event.tokens
            expected.append([*committed, *(token.text.strip() for token in hypothesis)])

    shown, found = [], []
    for screen in screens(log):
        shown[screen.base :] = screen.texts
        found.append(list(shown))

    assert expected == found
