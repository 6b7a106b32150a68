"""What an endpoint may answer."""

from __future__ import annotations

import json
import math

import pytest

from wlk_core.streaming import Word
from wlk_whisper.api_answer import Answer, AnswerError


def word(text, start, end=None):
    """Return a word as verbose_json has it."""
    return {"word": text, "start": start, "end": start + 0.3 if end is None else end}


def segment(text, start, end, **more):
    """Return a segment as verbose_json has it."""
    return {"id": 0, "text": text, "start": start, "end": end, "avg_logprob": -0.2, **more}


def read(**given):
    """Return the answer with these fields."""
    return Answer.read(json.dumps(given))


def test_the_spelling_is_the_segments_and_the_times_are_the_words():
    """Bare words take spaces and punctuation from the segments."""
    answer = read(
        text="Hello, world. Bye.",
        language="English",
        segments=[segment(" Hello, world.", 0.0, 1.0), segment(" Bye.", 1.0, 2.0)],
        words=[word("Hello", 0.1), word("world", 0.5), word("Bye", 1.2)],
    )

    assert "en" == answer.language
    assert (
        Word(0.1, 0.4, " Hello,"),
        Word(0.5, 0.8, " world."),
        Word(1.2, 1.5, " Bye."),
    ) == answer.timed_words()


def test_without_segments_the_spelling_is_that_of_the_text():
    """A server that gives words alone is enough."""
    answer = read(text="One, two.", words=[word("One", 0.0), word("two", 0.5)])

    assert [" One,", " two."] == [heard.text for heard in answer.timed_words()]


def test_stripped_segments_are_joined_as_their_script_wants():
    """A server that strips its segments gets their spaces back, or none in Chinese."""
    english = read(
        text="One. Two.",
        segments=[segment("One.", 0, 1), segment("Two.", 1, 2)],
        words=[word("One", 0), word("Two", 1)],
    )
    chinese = read(
        text="你好。世界。",
        segments=[segment("你好。", 0, 1), segment("世界。", 1, 2)],
        words=[word("你好", 0), word("世界", 1)],
    )

    assert " One. Two." == "".join(heard.text for heard in english.timed_words())
    assert "你好。世界。" == "".join(heard.text for heard in chinese.timed_words())


def test_only_what_is_stripped_gets_a_space():
    """A line break is a space, and segments that bring theirs keep it."""
    answer = read(
        text="one two.\nthree",
        segments=[segment("one\ntwo. ", 0, 1), segment(" three", 1, 2), segment("four", 2, 3)],
        words=[word(text, place) for place, text in enumerate(("one", "two", "three", "four"))],
    )

    assert [" one", " two.", " three", " four"] == [heard.text for heard in answer.timed_words()]


def test_words_inside_the_segments_are_words_too():
    """Some servers put them there."""
    answer = read(text="one", segments=[{**segment(" one", 0, 1), "words": [word(" one", 0.2)]}])

    assert [Word(0.2, 0.5, " one")] == list(answer.timed_words())


def test_segments_that_are_hardly_speech_are_dropped_with_their_words():
    """A probability of no speech above 0.9 drops words as the other engines do."""
    answer = read(
        text="One. Thank you.",
        segments=[
            segment(" One.", 0, 1, no_speech_prob=0.2),
            segment(" Thank you.", 1, 2, no_speech_prob=0.95),
        ],
        words=[word("One", 0), word("Thank", 1.0), word("you", 1.4)],
    )

    assert [" One."] == [heard.text for heard in answer.timed_words()]
    assert [" One."] == [heard.text for heard in answer.timed_segments()]


def test_a_dropped_segment_needs_no_times_of_words():
    """Servers that drop the words of a pause keep its text; only what is speech is asked for."""
    pause = segment(" you", 0, 1, no_speech_prob=0.97)
    for words in ([], None):
        assert () == read(text="you", words=words, segments=[pause]).timed_words()

    assert () == read(text="you", words=[word("thank", 0.2)], segments=[pause]).timed_words()
    with pytest.raises(AnswerError, match=r"got the text 'One\.' without `words`"):
        read(text="One. you", words=[], segments=[segment(" One.", 0, 1), pause]).timed_words()


def test_text_whose_words_have_no_times_is_refused():
    """A server that ignores timestamp_granularities is told from one that heard nothing."""
    with pytest.raises(AnswerError, match=r"got the text 'hello there' without `words`"):
        read(text="hello there", segments=[segment(" hello there", 0, 1)]).timed_words()

    assert () == read(text="").timed_words()
    assert () == read(text=" ...", words=[], segments=[]).timed_words()


def test_words_that_spell_another_text_speak_for_themselves():
    """Where nothing of the text is in the words, theirs is the text with the times."""
    answer = read(text="5", words=[word("five", 0.1)])

    assert [Word(0.1, 0.4, " five")] == [
        Word(heard.start, round(heard.end, 6), heard.text) for heard in answer.timed_words()
    ]


def test_a_translation_is_timed_by_its_segments():
    """Words of a translation have no times, so its segments are the pieces."""
    answer = read(
        text="Good day. Bye.",
        segments=[segment(" Good day.", 0.0, 1.5), segment(" Bye.", 1.5, 2.0)],
    )

    assert (
        Word(0.0, 1.5, " Good day."),
        Word(1.5, 2.0, " Bye."),
    ) == answer.timed_segments()
    with pytest.raises(AnswerError, match="expected verbose_json with segments"):
        read(text="Good day.").timed_segments()


@pytest.mark.parametrize(
    ("body", "kind", "told"),
    [
        ("<html><title>Sign in</title></html>", "text/html", "a page of HTML: '<html>"),
        ("  <!doctype html>", "application/json", "a page of HTML"),
        ('{"text": "on', "application/json", "expected JSON, got"),
        ("[1]", "application/json", "expected a JSON object"),
        ('{"error": "no"}', "application/json", "a JSON object with a text"),
        ('{"text": "a", "words": {}}', "application/json", "expected words to be a list"),
        ('{"text": "a", "words": [{"word": 1}]}', "application/json", "expected word to be text"),
        (
            '{"text": "a", "words": [{"word": "a", "start": NaN, "end": 1}]}',
            "application/json",
            "expected start in seconds",
        ),
        (
            '{"text": "a", "segments": [{"text": "a", "start": 0}]}',
            "application/json",
            "expected end in seconds",
        ),
    ],
)
def test_what_is_no_answer_is_told_in_one_line(body, kind, told):
    """The message says what was expected and how what came begins."""
    with pytest.raises(AnswerError) as caught:
        Answer.read(body, content_type=kind)

    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_a_damaged_answer_is_worth_asking_again():
    """A page of HTML will come again, a cut-off answer need not."""
    for body, is_damaged in (('{"text"', True), ("<html>", False), ("{}", False)):
        with pytest.raises(AnswerError) as caught:
            Answer.read(body)

        assert is_damaged == caught.value.is_damaged


def test_a_language_that_whisper_does_not_know_is_none():
    """`detected_language` is a declared code or None."""
    for name, code in (("german", "de"), ("haitian creole", "ht"), ("yue", "yue"), ("x", None)):
        assert code == read(text="", language=name).language


def test_times_are_finite():
    """An infinite time is refused, whichever way it is written."""
    with pytest.raises(AnswerError, match="in seconds"):
        read(text="a", words=[word("a", math.inf)])
