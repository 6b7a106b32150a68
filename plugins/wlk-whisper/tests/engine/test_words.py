"""From tokens to words: grouping, punctuation, silence around words, and loops."""

from __future__ import annotations

from itertools import pairwise, takewhile
import re

from faster_whisper.tokenizer import Tokenizer
from hypothesis import example, given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.testing import noise
from wlk_core.streaming import Word
from wlk_whisper.ctranslate2.backend import BUNDLED
from wlk_whisper.engine.tokenizer_file import read_tokenizer
from wlk_whisper.engine.words import (
    drop_loop,
    spoken_tokens,
    tighten_to_speech,
    words_from_tokens,
)

RATE = 16_000
HF_TOKENIZER = read_tokenizer(BUNDLED, n_vocab=51865)


def tokenizer(language="en"):
    """Return the tokenizer of a stream."""
    return Tokenizer(HF_TOKENIZER, True, task="transcribe", language=language)


def words_of(text, *, language="en", tokens=None):
    """Return the words of *text*; token i begins at frame 10 i and has probability 1/(i + 1)."""
    stream_tokenizer = tokenizer(language)
    ids = stream_tokenizer.encode(text) if tokens is None else tokens
    boundaries = 10 * np.arange(len(ids) + 1)
    probabilities = 1.0 / (1 + np.arange(len(ids)))
    return words_from_tokens(stream_tokenizer, ids, boundaries, probabilities), ids


def test_words_are_divided_at_spaces():
    """A word is all of its tokens: it begins with the first and ends where the next one begins."""
    words, ids = words_of(" one unbelievableness two")
    end = len(ids) - 1

    assert [span.word.text for span in words] == [" one", " unbelievableness", " two"]
    assert [(span.first, span.end_token) for span in words] == [(0, 1), (1, end), (end, len(ids))]
    assert words[1].word.start == pytest.approx(0.2)
    assert words[1].word.end == pytest.approx(0.2 * end)
    expected = np.mean(1.0 / (1 + np.arange(1, end)))
    assert words[1].word.probability == pytest.approx(expected)


def test_punctuation_is_joined_to_its_word():
    """It changes the text and the tokens of the word, neither its times nor its probability."""
    parts = (" one", ",", ' "', " two", "!")
    words, _ = words_of("", tokens=[token for part in parts for token in tokenizer().encode(part)])

    assert [span.word.text for span in words] == [" one,", ' " two!']
    assert [(span.first, span.end_token) for span in words] == [(0, 2), (2, 5)]
    assert (words[0].word.start, words[0].word.end, words[0].word.probability) == (0.0, 0.2, 1.0)
    second = words[1].word
    assert (second.start, second.end, second.probability) == pytest.approx((0.6, 0.8, 0.25))


def test_words_end_before_the_bytes_of_an_incomplete_character():
    """Any prefix of the tokens gives a prefix of the text, without a replacement character."""
    tokens = tokenizer("my").encode(" မင်္ဂ")
    for length in range(len(tokens) + 1):
        words, _ = words_of("", language="my", tokens=tokens[:length])

        assert " မင်္ဂ".startswith("".join(span.word.text for span in words))


def test_scripts_without_spaces_are_divided_between_characters():
    """Each complete character can be a word of its own."""
    words, _ = words_of("今日は仕事", language="ja")

    assert "".join(span.word.text for span in words) == "今日は仕事"
    assert len(words) > 1


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=20))
def test_words_joined_are_the_text(text):
    """Nothing but stretches of space is lost."""
    words, ids = words_of(text)
    decoded = tokenizer().decode(ids)
    joined = "".join(span.word.text for span in words)

    assert "\ufffd" in decoded or "".join(decoded.split()) == "".join(joined.split())
    assert all(0.0 <= span.word.probability <= 1.0 for span in words)
    assert all(a.end_token <= b.first for a, b in pairwise(words))


def sounding(*spans, seconds=4.0, level=1e-4):
    """Return audio with noise in *spans* (seconds) and nearly nothing elsewhere."""
    audio = noise(seconds, level=level, seed=1)
    for start, end in spans:
        samples = slice(round(start * RATE), round(end * RATE))
        audio[samples] = noise(end - start, level=0.1, seed=2)
    return audio


@given(st.floats(0.0, 0.9), st.floats(1.6, 3.0))
def test_silence_around_a_word_is_removed(before, after):
    """Whatever pause the span includes, the word begins and ends with its sound."""
    (word,) = tighten_to_speech([Word(before, after, " one")], sounding((1.0, 1.5)))

    assert (word.start, word.end) == pytest.approx((1.0, 1.5), abs=0.011)


def test_the_end_of_a_neighbour_is_removed():
    """A short sound at the very edge of the span, separated by a pause, is the neighbour's."""
    audio = sounding((0.5, 1.0), (1.3, 1.8), (2.1, 2.6))
    (word,) = tighten_to_speech([Word(0.95, 2.15, " one")], audio)

    assert (word.start, word.end) == pytest.approx((1.3, 1.8), abs=0.011)


def test_a_stop_inside_a_word_does_not_divide_it():
    """The closure of a consonant is part of the word."""
    (word,) = tighten_to_speech([Word(0.8, 2.0, " six")], sounding((1.0, 1.3), (1.38, 1.6)))

    assert (word.start, word.end) == pytest.approx((1.0, 1.6), abs=0.011)


@given(st.floats(0, 3.9), st.floats(0, 1.0), st.integers(0, 20))
def test_a_word_never_leaves_its_span(start, length, seed):
    """Times are only ever moved inwards."""
    word = Word(start, min(4.0, start + length), " one")
    (tightened,) = tighten_to_speech([word], noise(4.0, level=0.05, seed=seed))

    assert word.start <= tightened.start <= tightened.end <= max(word.end, word.start)


@given(st.text("ax", max_size=20))
@example("abcxxxdxef")
@example("abcxxxdexfghij")
def test_a_loop_is_dropped_with_what_belongs_to_it(text):
    """Three or more words in a row without audio, here x, are a loop; three with audio end it."""
    words = [Word(i, i + (letter != "x"), letter) for i, letter in enumerate(text)]
    before, *sections = re.split("x{3,}", text)
    kept = takewhile(lambda section: len(section.replace("x", "")) >= 3, sections)

    assert "".join(word.text for word in drop_loop(words)) == before + "".join(kept)


def test_a_boundary_within_sound_is_moved_to_the_pause_close_by():
    """If the attention moves on too early, the word still begins after the pause."""
    audio = sounding((0.5, 1.0), (1.4, 1.9))
    before, after = tighten_to_speech([Word(0.4, 0.85, " six"), Word(0.85, 2.0, " two")], audio)

    times = (before.start, before.end, after.start, after.end)
    assert times == pytest.approx((0.5, 1.0, 1.4, 1.9), abs=0.011)


def test_words_without_a_pause_keep_the_boundary_of_the_model():
    """If two words have no pause between them, the boundary does not move."""
    before, after = tighten_to_speech(
        [Word(0.4, 1.2, " six"), Word(1.2, 2.0, " two")], sounding((0.5, 1.9))
    )

    assert before.end == 1.2
    assert after.start == 1.2


@pytest.mark.parametrize("rounds", [2, 3, 8, 20])
def test_a_loop_of_any_length_without_audio_of_its_own_is_dropped(rounds):
    """A phrase of four tokens takes 0.3 s at least; the decoder went on where it took less."""
    tokens = [9, *[1, 2, 3, 4] * rounds, 8]
    end = 60 + 4 * (rounds - 1)  # later tokens have a frame each
    boundaries = np.array([0, 20, 30, 40, 50, *range(60, end + 1), end + 30])

    assert spoken_tokens(tokens, boundaries, rate=15).tolist() == [0, 1, 2, 3, 4, len(tokens) - 1]


@pytest.mark.parametrize(("rate", "kept"), [(15, 8), (45, 20)])
def test_a_phrase_that_was_repeated_aloud_stays(rate, kept):
    """Scripts with a token for each byte take three times as many tokens a second."""
    tokens = [1, 2, 3, 4] * 5
    boundaries = np.array([0, 10, 20, 30, 40, 45, 50, 55, *range(60, 86, 2)])

    assert len(spoken_tokens(tokens, boundaries, rate=rate)) == kept


def test_a_loop_of_one_word_without_spaces_is_dropped():
    """3.3.3.3 is one word, so that words without a duration do not show the loop."""
    tokens = [3, 7, 3, 7, 3, 7, 3]
    boundaries = np.array([0, 10, 12, 12, 13, 13, 14, 14])

    assert spoken_tokens(tokens, boundaries, rate=15).tolist() == [0, 1]


def test_two_equal_tokens_are_no_loop():
    """Words of two equal pieces exist, and policies see a repeated word."""
    assert spoken_tokens([5, 5, 6], np.array([0, 1, 2, 30]), rate=15).tolist() == [0, 1, 2]
