"""Parsing of verbose_json responses, and bare words spelled as in their text; see tests/fuzz."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

pytest.importorskip("openai", reason="needs: pip install 'wlk-whisper[openai]'")

from wlk_core.streaming import Word
from wlk_whisper.openai_api.response import (
    ResponseError,
    TimedText,
    TranscriptionResponse,
    divide_text,
    in_order,
    with_leading_space,
)

WORDS = st.text("abcdeéßжщแมไทย漢字かな0123", min_size=1, max_size=6)
GAPS = st.sampled_from([" ", ", ", ". ", " - ", "; ", "! ", "... ", " (", ' "', "\n"])


def word(text, start, end=None):
    """Return a word of verbose_json."""
    return {"word": text, "start": start, "end": start + 0.3 if end is None else end}


def segment(text, start, end, **more):
    """Return a segment of verbose_json."""
    return {"id": 0, "text": text, "start": start, "end": end, "avg_logprob": -0.2, **more}


def parse(**fields):
    """Return the response to 30 s of audio with these fields."""
    return TranscriptionResponse.parse(json.dumps(fields), audio_seconds=30.0)


def ordered(*pairs):
    """Return the times of words in 10 s of audio, put in order."""
    words = tuple(TimedText(text="x", start=start, end=end) for start, end in pairs)
    return [(word.start, word.end) for word in in_order(words, audio_seconds=10.0)]


def test_the_spelling_is_the_segments_and_the_times_are_the_words():
    """Bare words take spaces and punctuation from the segments."""
    response = parse(
        text="Hello, world. Bye.",
        language="English",
        segments=[segment(" Hello, world.", 0.0, 1.0), segment(" Bye.", 1.0, 2.0)],
        words=[word("Hello", 0.1), word("world", 0.5), word("Bye", 1.2)],
    )

    assert response.language == "en"
    assert response.timed_words() == (
        Word(0.1, 0.4, " Hello,"),
        Word(0.5, 0.8, " world."),
        Word(1.2, 1.5, " Bye."),
    )


def test_words_inside_the_segments_are_read():
    """Some servers put the words into the segments."""
    response = parse(text="one", segments=[{**segment(" one", 0, 1), "words": [word(" one", 0.2)]}])

    assert list(response.timed_words()) == [Word(0.2, 0.5, " one")]


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

    assert [word.text for word in response.timed_words()] == [" One."]
    assert [word.text for word in response.timed_segments()] == [" One."]


@pytest.mark.parametrize(
    ("no_speech_prob", "avg_logprob", "is_kept"),
    [(0.8, -0.9, True), (0.8, -1.2, False), (0.5, -1.2, True), (0.8, None, True)],
)
def test_an_unlikely_segment_is_dropped_at_a_lower_probability_of_no_speech(
    no_speech_prob, avg_logprob, is_kept
):
    """This is the rule of openai/whisper, for servers that give both."""
    found = segment(" you", 0, 1, no_speech_prob=no_speech_prob, avg_logprob=avg_logprob)

    assert (
        bool(parse(text="you", words=[word("you", 0)], segments=[found]).timed_words()) is is_kept
    )


def test_text_whose_words_have_no_times_is_refused():
    """A server that ignores timestamp_granularities differs from one that found no speech."""
    pause = segment(" you", 0, 1, no_speech_prob=0.97)
    with pytest.raises(ResponseError, match=r"got the text 'One\.' without `words`"):
        parse(text="One. you", words=[], segments=[segment(" One.", 0, 1), pause]).timed_words()

    assert parse(text="you", words=None, segments=[pause]).timed_words() == ()

    assert parse(text="").timed_words() == ()
    assert parse(text=" ...", words=[], segments=[]).timed_words() == ()


def test_words_that_the_text_does_not_contain_are_used_as_they_are():
    """If text and words have no letter in common, only the words have times."""
    response = parse(text="5", words=[word("five", 0.1)])

    assert [Word(word.start, round(word.end, 6), word.text) for word in response.timed_words()] == [
        Word(0.1, 0.4, " five")
    ]


def test_a_translation_is_timed_by_its_segments():
    """Words of a translation have no times, so each segment is one piece."""
    response = parse(
        text="Good day. Bye.",
        segments=[segment(" Good day.", 0.0, 1.5), segment(" Bye.", 1.5, 2.0)],
    )

    expected = (Word(0.0, 1.5, " Good day."), Word(1.5, 2.0, " Bye."))
    assert response.timed_segments() == expected
    with pytest.raises(ResponseError, match="expected verbose_json with segments"):
        parse(text="Good day.").timed_segments()


def test_a_language_that_whisper_does_not_support_is_none():
    """Names are those of openai/whisper, which servers report; codes are accepted, too."""
    names = pytest.importorskip("mlx_whisper.tokenizer", exc_type=ImportError).TO_LANGUAGE_CODE
    for name, code in names.items():
        assert parse(text="", language=name.title()).language == code
    for name, code in (("yue", "yue"), ("de", "de"), ("JV", "jw"), ("x", None)):
        assert parse(text="", language=name).language == code


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([(0.0, 0.4), (0.4, 0.9)], [(0.0, 0.4), (0.4, 0.9)]),
        ([(-0.5, 0.4)], [(0.0, 0.4)]),
        ([(9.5, 10.5), (12.0, 13.0)], [(9.5, 10.0), (10.0, 10.0)]),
        ([(2.0, 1.0)], [(2.0, 2.0)]),
        ([(1.0, 1.5), (0.2, 0.6)], [(1.0, 1.5), (1.5, 1.5)]),
        ([(1.0, 2.0), (1.5, 3.0)], [(1.0, 2.0), (1.5, 3.0)]),
    ],
    ids=["in order", "before", "after", "backwards", "swapped", "overlapping"],
)
def test_times_are_put_right(pairs, expected):
    """No word is left out, and each has the time nearest to its own that is possible."""
    assert ordered(*pairs) == expected


@pytest.mark.parametrize(
    "pairs",
    [[(500.0, 900.0)], [(0.0, 1e300)], [(5.0, 5.5), (1.0, 1.5)]],
    ids=["milliseconds", "absurd", "shuffled"],
)
def test_times_of_something_else_are_refused(pairs):
    """Times in other units, or of words in another order, would be wrong however they are moved."""
    with pytest.raises(ResponseError, match=r"times in order within the 10\.0 s sent, got"):
        ordered(*pairs)


@given(st.lists(st.tuples(WORDS, GAPS), min_size=1, max_size=12), st.sampled_from(["", " ", " ¿"]))
def test_the_pieces_of_a_text_with_spaces_are_its_words(pairs, lead):
    """Each bare word gets the piece that contains it, and the pieces joined are the text."""
    words = [word for word, _ in pairs]
    text = lead + "".join(word + gap for word, gap in pairs)
    pieces = divide_text(words, text)

    assert "".join(piece for *_, piece in pieces) == text
    assert [index for index, *_ in pieces] == list(range(len(words)))
    assert all(word in piece for word, (*_, piece) in zip(words, pieces, strict=True))


@pytest.mark.parametrize(
    ("words", "text", "pieces"),
    [
        (["Hello", "world"], "Hello, world.", ["Hello,", " world."]),
        (["It's", "5", "000", "euro"], "It's €5,000 euro!", ["It's", " €5,", "000", " euro!"]),
        (["he", "shouts", "no"], 'he shouts "no"', ["he", " shouts", ' "no"']),
        (["well", "known"], "well-known", ["well-", "known"]),
        (["你好", "世界"], "你好,世界。", ["你好,", "世界。"]),
        (["สวัสดี", "ครับ"], "สวัสดีครับ", ["สวัสดี", "ครับ"]),
        (["STRASSE"], "Straße", ["Straße"]),
        (["one", "three"], "one two three", ["one two", " three"]),
        (["one", "two", "three"], "one three", ["one", " three"]),
        (["five"], "5", []),
        (["one"], "...", []),
    ],
)  # fmt: skip
def test_words_are_spelled_as_in_the_text(words, text, pieces):
    """A space precedes its word; punctuation follows its word unless it opens the next."""
    assert [piece for *_, piece in divide_text(words, text)] == pieces


@pytest.mark.parametrize(
    ("stripped", "written"),
    [
        ("one", " one"),
        (" one ", " one"),
        ("¿qué?", " ¿qué?"),
        ("你好", "你好"),
        ("「你好」", "「你好」"),
        ("สวัสดี", "สวัสดี"),
        (", too", ", too"),
        ("", ""),
    ],
)
def test_a_stripped_text_gets_the_space_of_its_script(stripped, written):
    """Text that follows other text is joined as in Whisper's own output."""
    assert with_leading_space(stripped) == written


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["ab" * 10_000], "a" * 20_000),
        (["x"] * 999 + ["a"], "b" * 19_999 + "a"),
        (["a"] * 500, "a" + " b" * 9_999),
    ],
    ids=["repetitive", "the last letter", "the first letter"],
)
def test_long_texts_that_differ_take_no_time(words, text):
    """A matcher that compares all letters would take hours; the text is divided whole or not."""
    pieces = divide_text(words, text)

    assert pieces == () or "".join(piece for *_, piece in pieces) == text
