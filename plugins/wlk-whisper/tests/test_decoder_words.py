"""From tokens to words: grouping, punctuation, unfinished characters."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from faster_whisper.tokenizer import Tokenizer
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest
import tokenizers

import wlk_whisper
from wlk_whisper.decoder.budget import token_budget
from wlk_whisper.decoder.features import WINDOW_FRAMES, window_frames
from wlk_whisper.decoder.words import spell

SHARED = Path(wlk_whisper.__file__).parent / "digits/ctranslate2/tokenizer.json"
VOCABULARY = tokenizers.Tokenizer.from_file(str(SHARED))


def tokenizer(language="en"):
    """Return the tokenizer of a stream."""
    return Tokenizer(VOCABULARY, True, task="transcribe", language=language)


def spelt(text, *, language="en", tokens=None):
    """Return the words of *text*; token i begins at position 10 i and has probability 1/(i + 1)."""
    its = tokenizer(language)
    ids = its.encode(text) if tokens is None else tokens
    bounds = 10 * np.arange(len(ids) + 1)
    return spell(its, ids, bounds, 1.0 / (1 + np.arange(len(ids)))), ids


def test_words_are_divided_at_spaces():
    """A word is all of its tokens: it begins with the first and ends where the next one begins."""
    words, ids = spelt(" one unbelievableness two")
    behind = len(ids) - 1

    assert [" one", " unbelievableness", " two"] == [entry.word.text for entry in words]
    assert [(0, 1), (1, behind), (behind, len(ids))] == [(e.first, e.behind) for e in words]
    assert 0.2 == pytest.approx(words[1].word.start)
    assert 0.2 * behind == pytest.approx(words[1].word.end)
    expected = np.mean(1.0 / (1 + np.arange(1, behind)))
    assert expected == pytest.approx(words[1].word.probability)


def test_punctuation_goes_with_its_word():
    """It changes the text and the tokens of the word, neither its times nor its probability."""
    parts = (" one", ",", ' "', " two", "!")
    words, _ = spelt("", tokens=[token for part in parts for token in tokenizer().encode(part)])

    assert [" one,", ' " two!'] == [entry.word.text for entry in words]
    assert [(0, 2), (2, 5)] == [(entry.first, entry.behind) for entry in words]
    assert (0.0, 0.2, 1.0) == (words[0].word.start, words[0].word.end, words[0].word.probability)
    assert 0.6 == pytest.approx(words[1].word.start)
    assert 0.8 == pytest.approx(words[1].word.end)
    assert 0.25 == pytest.approx(words[1].word.probability)


def test_bytes_of_an_unfinished_character_wait():
    """Words end before them, and no replacement character is ever shown."""
    whole = tokenizer("my").encode(" မင်္ဂ")
    for length in range(len(whole) + 1):
        words, _ = spelt("", language="my", tokens=whole[:length])

        assert " မင်္ဂ".startswith("".join(entry.word.text for entry in words))


def test_scripts_without_spaces_are_divided_between_characters():
    """Each character that is whole can be a word of its own."""
    words, _ = spelt("今日は仕事", language="ja")

    assert "今日は仕事" == "".join(entry.word.text for entry in words)
    assert len(words) > 1


def test_no_tokens_are_no_words():
    """Nothing was said."""
    assert () == spelt("", tokens=[])[0]


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=20))
def test_words_are_the_text(text):
    """Joined, they are what was said, but for stretches of nothing but space."""
    words, ids = spelt(text)
    said = tokenizer().decode(ids)
    joined = "".join(entry.word.text for entry in words)

    assert "\ufffd" in said or "".join(said.split()) == "".join(joined.split())
    assert all(0.0 <= entry.word.probability <= 1.0 for entry in words)
    assert all(a.behind <= b.first for a, b in pairwise(words))


@given(st.integers(1, 480_000))
def test_a_fitted_window_holds_the_audio_and_half_a_second(samples):
    """Windows are whole seconds, two at least, thirty at most."""
    frames = window_frames(samples, is_fitted=True)

    assert WINDOW_FRAMES == window_frames(samples, is_fitted=False)
    assert 0 == frames % 100
    assert 200 <= frames <= WINDOW_FRAMES
    assert frames == WINDOW_FRAMES or frames * 160 >= samples + 8000
    assert frames == 200 or (frames - 100) * 160 < samples + 8000


@pytest.mark.parametrize("seconds", [1, 12, 30])
def test_the_budget_holds_what_anyone_can_say(seconds):
    """Fifteen tokens a second, and three times that in scripts spelt in bytes (defect B54)."""
    assert token_budget(16_000 * seconds, "en") >= 15 * seconds
    assert token_budget(16_000 * seconds, "my") >= 3 * 15 * seconds
    assert token_budget(16_000 * seconds, "my", task="translate") < 3 * 15 * seconds + 16


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("my", "ကျွန်တော်တို့ ဒီနေ့ အလုပ်သွားမယ်"),
        ("bo", "བཀྲ་ཤིས་བདེ་ལེགས།"),
        ("ka", "გამარჯობა დღეს სამსახურში მივდივარ"),
        ("te", "ఈ రోజు నేను పనికి వెళ్తున్నాను"),
        ("hi", "नमस्ते आज मैं काम पर जा रहा हूँ"),
        ("en", "hello today I am going to work"),
        ("ja", "こんにちは今日は仕事に行きます"),
        ("ru", "привет сегодня я иду на работу"),
    ],
)
def test_fast_speech_fits_the_budget_in_every_script(language, text):
    """Fifteen characters a second, in the tokens that they take."""
    seconds = len(text) / 15

    assert len(tokenizer(language).encode(text)) <= token_budget(round(16_000 * seconds), language)
