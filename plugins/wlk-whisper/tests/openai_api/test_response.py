"""Parsing of verbose_json responses."""

from __future__ import annotations

import json
import math

import attrs
import pytest

from wlk_core.streaming import Word
from wlk_whisper.openai_api.response import ResponseError, TranscriptionResponse


def word(text, start, end=None):
    """Return a word of verbose_json."""
    return {"word": text, "start": start, "end": start + 0.3 if end is None else end}


def segment(text, start, end, **more):
    """Return a segment of verbose_json."""
    return {"id": 0, "text": text, "start": start, "end": end, "avg_logprob": -0.2, **more}


def parse(**fields):
    """Return the response with these fields."""
    return TranscriptionResponse.parse(json.dumps(fields))


def test_the_spelling_is_the_segments_and_the_times_are_the_words():
    """Bare words take spaces and punctuation from the segments."""
    response = parse(
        text="Hello, world. Bye.",
        language="English",
        segments=[segment(" Hello, world.", 0.0, 1.0), segment(" Bye.", 1.0, 2.0)],
        words=[word("Hello", 0.1), word("world", 0.5), word("Bye", 1.2)],
    )

    assert "en" == response.language
    assert (
        Word(0.1, 0.4, " Hello,"),
        Word(0.5, 0.8, " world."),
        Word(1.2, 1.5, " Bye."),
    ) == response.timed_words()


def test_without_segments_the_spelling_is_that_of_the_text():
    """A response with words and text but no segments is complete."""
    response = parse(text="One, two.", words=[word("One", 0.0), word("two", 0.5)])

    assert [" One,", " two."] == [word.text for word in response.timed_words()]


def test_stripped_segments_are_joined_by_the_rule_of_their_script():
    """Stripped segments get a leading space back, except in scripts without spaces."""
    english = parse(
        text="One. Two.",
        segments=[segment("One.", 0, 1), segment("Two.", 1, 2)],
        words=[word("One", 0), word("Two", 1)],
    )
    chinese = parse(
        text="你好。世界。",
        segments=[segment("你好。", 0, 1), segment("世界。", 1, 2)],
        words=[word("你好", 0), word("世界", 1)],
    )

    assert " One. Two." == "".join(word.text for word in english.timed_words())
    assert "你好。世界。" == "".join(word.text for word in chinese.timed_words())


def test_only_stripped_segments_get_a_space():
    """A line break is a space, and segments with a leading space keep it."""
    response = parse(
        text="one two.\nthree",
        segments=[segment("one\ntwo. ", 0, 1), segment(" three", 1, 2), segment("four", 2, 3)],
        words=[word(text, start) for start, text in enumerate(("one", "two", "three", "four"))],
    )

    assert [" one", " two.", " three", " four"] == [word.text for word in response.timed_words()]


def test_words_inside_the_segments_are_read():
    """Some servers put the words there."""
    response = parse(text="one", segments=[{**segment(" one", 0, 1), "words": [word(" one", 0.2)]}])

    assert [Word(0.2, 0.5, " one")] == list(response.timed_words())


def test_segments_without_speech_are_dropped_with_their_words():
    """A probability of no speech above 0.9 drops words, as in the other engines."""
    response = parse(
        text="One. Thank you.",
        segments=[
            segment(" One.", 0, 1, no_speech_prob=0.2),
            segment(" Thank you.", 1, 2, no_speech_prob=0.95),
        ],
        words=[word("One", 0), word("Thank", 1.0), word("you", 1.4)],
    )

    assert [" One."] == [word.text for word in response.timed_words()]
    assert [" One."] == [word.text for word in response.timed_segments()]


def test_a_dropped_segment_needs_no_word_times():
    """Some servers drop the words of a pause and keep its text; only speech needs times."""
    pause = segment(" you", 0, 1, no_speech_prob=0.97)
    for words in ([], None):
        assert () == parse(text="you", words=words, segments=[pause]).timed_words()

    assert () == parse(text="you", words=[word("thank", 0.2)], segments=[pause]).timed_words()
    with pytest.raises(ResponseError, match=r"got the text 'One\.' without `words`"):
        parse(text="One. you", words=[], segments=[segment(" One.", 0, 1), pause]).timed_words()


def test_text_whose_words_have_no_times_is_refused():
    """A server that ignores timestamp_granularities differs from one that found no speech."""
    with pytest.raises(ResponseError, match=r"got the text 'hello there' without `words`"):
        parse(text="hello there", segments=[segment(" hello there", 0, 1)]).timed_words()

    assert () == parse(text="").timed_words()
    assert () == parse(text=" ...", words=[], segments=[]).timed_words()


def test_words_that_the_text_does_not_contain_are_used_as_they_are():
    """Where text and words have no letter in common, only the words have times."""
    response = parse(text="5", words=[word("five", 0.1)])

    assert [Word(0.1, 0.4, " five")] == [
        Word(word.start, round(word.end, 6), word.text) for word in response.timed_words()
    ]


def test_a_translation_is_timed_by_its_segments():
    """Words of a translation have no times, so each segment is one piece."""
    response = parse(
        text="Good day. Bye.",
        segments=[segment(" Good day.", 0.0, 1.5), segment(" Bye.", 1.5, 2.0)],
    )

    assert (
        Word(0.0, 1.5, " Good day."),
        Word(1.5, 2.0, " Bye."),
    ) == response.timed_segments()
    with pytest.raises(ResponseError, match="expected verbose_json with segments"):
        parse(text="Good day.").timed_segments()


@pytest.mark.parametrize(
    ("body", "content_type", "message"),
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
def test_an_invalid_response_is_one_line(body, content_type, message):
    """The message has the expected form and the beginning of the actual response."""
    with pytest.raises(ResponseError) as caught:
        TranscriptionResponse.parse(body, content_type=content_type)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_a_damaged_response_is_worth_a_retry():
    """A retry may complete a cut-off response, and returns the same page of HTML."""
    for body, is_damaged in (('{"text"', True), ("<html>", False), ("{}", False)):
        with pytest.raises(ResponseError) as caught:
            TranscriptionResponse.parse(body)

        assert is_damaged == caught.value.is_damaged


def test_a_language_that_whisper_does_not_support_is_none():
    """The language of a response is a declared code or None."""
    for name, code in (("german", "de"), ("haitian creole", "ht"), ("yue", "yue"), ("x", None)):
        assert code == parse(text="", language=name).language


def test_times_are_finite():
    """An infinite time is refused, whichever way it is written."""
    with pytest.raises(ResponseError, match="in seconds"):
        parse(text="a", words=[word("a", math.inf)])


def test_a_probability_that_is_no_number_drops_nothing():
    """Only a number above 0.9 marks a segment as silence."""
    for value in (math.nan, math.inf, True, "0.99", None, [1]):
        part = segment(" One.", 0, 1, no_speech_prob=value)

        assert [" One."] == [
            word.text for word in parse(text="One.", segments=[part]).timed_segments()
        ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text": "a" * 20_001}, "text of at most .* got 1 and 20001"),
        ({"words": [word("a", 0)] * 1001}, "words of at most 1000 items .* got 1001"),
        ({"words": [word("a" * 5000, 0)] * 5}, "words .* got 5 and 25000"),
        ({"segments": [segment("a", 0, 1)] * 1001}, "segments of at most 1000 items"),
        ({"words": [word("a", 9**9)]}, "in seconds within the 30.0 s sent"),
        ({"words": [word("a", 5.0), word("b", 1.0)]}, "in the order of their times"),
        ({"segments": [segment("a", 5, 6), segment("b", 1, 2)]}, "in the order of their times"),
        ({"text": [[[]]] * 5000}, "a JSON object with a text"),
        ({"words": [{"word": {"a": "b" * 9000}}]}, "expected word to be text"),
    ],
)
def test_more_than_the_audio_can_contain_is_refused(fields, message):
    """The line names the limit, and the same request would bring the same answer."""
    with pytest.raises(ResponseError, match=message) as caught:
        parse(**{"text": "a", **fields})

    assert not caught.value.is_damaged
    assert len(str(caught.value)) < 300


def test_values_nested_too_deep_are_no_damage():
    """Another attempt would bring the same answer."""
    with pytest.raises(ResponseError, match="nested too deeply") as caught:
        TranscriptionResponse.parse('{"text": ' + "[" * 100_000)

    assert not caught.value.is_damaged


def test_control_characters_never_reach_a_transcript():
    """They are removed from text, segments and words before these are compared."""
    response = parse(
        text="one\x1b[2J two\x00",
        segments=[segment(" one\x1b[2J two\x00", 0, 1)],
        words=[word("one\x1b[2J", 0.1), word("two\x00", 0.5), word("\x07", 0.8)],
    )

    assert [" one[2J", " two"] == [word.text for word in response.timed_words()]


def test_times_outside_the_audio_become_its_ends():
    """A model that pads its input may place a word after the audio."""
    body = json.dumps({"text": "one two", "words": [word("one", -1), word("two", 3.5, 4)]})
    response = TranscriptionResponse.parse(body, audio_seconds=2.0)

    assert [Word(0.0, 0.0, " one"), Word(2.0, 2.0, " two")] == [
        attrs.evolve(word, end=max(word.start, round(word.end, 6)))
        for word in response.timed_words()
    ]
