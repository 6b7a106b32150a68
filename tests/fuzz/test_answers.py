"""Responses of a remote server become words in order within the audio, or a one-line error."""

from __future__ import annotations

import json
from unicodedata import category

from hypothesis import example, given
from hypothesis import strategies as st
import pytest

from wlk_frameworks.servers import mask_secret
from wlk_whisper.openai_api.response import ResponseError, TranscriptionResponse, divide_text

from .cases import cases, damaged

pytestmark = pytest.mark.slow

AUDIO_SECONDS = 8.0
TEXTS = st.text(max_size=8) | st.sampled_from([" one", "one", "Two.", "\x1b[2J", "\ud800", "字"])
TIMES = st.floats(-2.0, 12.0) | st.sampled_from([0, -1, 1e300, True, None, "1", 10**30])
NAMES = st.sampled_from(["text", "words", "segments", "language", "word", "start", "end"])
WORDS = st.fixed_dictionaries({"word": TEXTS, "start": TIMES, "end": TIMES})
SEGMENTS = st.fixed_dictionaries(
    {"text": TEXTS, "start": TIMES, "end": TIMES},
    optional={"no_speech_prob": TIMES, "words": st.lists(WORDS, max_size=3)},
)
RESPONSES = st.fixed_dictionaries(
    {"text": TEXTS},
    optional={
        "words": st.lists(WORDS, max_size=6) | st.none(),
        "segments": st.lists(SEGMENTS, max_size=4),
        "language": TEXTS,
    },
)
VALUES = st.recursive(
    st.none() | st.booleans() | TIMES | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
VALID = json.dumps(
    {
        "text": "One, two.",
        "language": "english",
        "words": [
            {"word": "One", "start": 0.1, "end": 0.5},
            {"word": "two", "start": 0.6, "end": 1},
        ],
        "segments": [{"id": 0, "text": " One, two.", "start": 0.0, "end": 1.0}],
    }
).encode()


def is_in_order_or_one_line(body):
    """Return whether *body* gives words in order within the audio, or a one-line error."""
    try:
        response = TranscriptionResponse.parse(body, audio_seconds=AUDIO_SECONDS)
        spans = response.timed_segments(), response.timed_words()
    except ResponseError as error:
        return "\n" not in str(error) and len(str(error)) < 400

    return all(
        all(0.0 <= word.start <= word.end <= AUDIO_SECONDS for word in words)
        and sorted(word.start for word in words) == [word.start for word in words]
        and not any(category(c) in ("Cc", "Cs") for word in words for c in word.text)
        for words in spans
    )


@cases
@given(value=RESPONSES | VALUES)
@example(value={"text": "a", "words": [{"word": "a", "start": 10**30, "end": 1}]})
def test_an_answer_of_any_form_is_words_in_order_or_one_line(value):
    """Times and text can be any JSON value; types are checked first."""
    assert is_in_order_or_one_line(json.dumps(value))


@cases
@given(body=damaged([VALID]))
@example(body=b'{"text": "a", "words": [{"word": "a", "start": 1e999, "end": NaN}]}')
def test_a_damaged_answer_is_words_in_order_or_one_line(body):
    """Truncated and changed bytes give words or a one-line error too."""
    assert is_in_order_or_one_line(body.decode("utf-8", "replace"))


@cases
@given(
    words=st.lists(st.text("abc ß.", max_size=6), max_size=8),
    text=st.text("abcß, .\n", max_size=30),
)
def test_no_letter_of_a_text_is_lost(words, text):
    """The pieces of a text are in the order of the words, and join to the text."""
    pieces = divide_text(words, text)

    assert not pieces or "".join(piece for *_, piece in pieces) == text
    assert sorted(index for index, *_ in pieces) == [index for index, *_ in pieces]


@cases
@given(
    key=st.text("sk-0123", min_size=8, max_size=12),
    parts=st.lists(st.text("sk-0123 x"), max_size=3),
)
def test_no_key_is_ever_shown(key, parts):
    """A key is masked wherever it occurs, whatever the text around it."""
    assert key not in mask_secret(key.join(["", *parts, ""]), key)
