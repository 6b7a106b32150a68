"""How much a hypothesis may say: for all audio that has no final text, and never without end."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core import AttendedWord
from wlk_core.streaming import Word
from wlk_qwen3_simul.checkpoint import Checkpoint
from wlk_qwen3_simul.languages import LANGUAGES
from wlk_qwen3_simul.simul.budget import SPARE_TOKENS, token_budget
from wlk_qwen3_simul.simul.engine import Engine, StreamSettings
from wlk_qwen3_simul.simul.listener import Listener
from wlk_qwen3_simul.simul.telling import Token

RATE = 16_000
SPELT = {"el", "fa", "hi", "mk", "th"}  # scripts of which the vocabulary has few words
MOST = 4096

lengths = st.integers(0, 30 * RATE)
languages = st.none() | st.sampled_from(sorted(LANGUAGES))
bounds = st.integers(16, MOST)


@given(lengths, languages, bounds)
def test_the_option_bounds_every_hypothesis(samples, language, most):
    """And whatever is heard, there is room for something."""
    assert 0 < token_budget(samples, language, most=most) <= most


@given(lengths, lengths, languages)
def test_more_audio_has_room_for_more(samples, more, language):
    """At least for what it may hold by itself."""
    least, most = (token_budget(one, language, most=MOST) for one in (samples, samples + more))

    assert least <= most
    assert most <= least + token_budget(more, language, most=MOST)


@given(lengths, languages)
def test_spelt_scripts_have_three_times_the_room(samples, language):
    """45 tokens a second and not 15; a language that is to be detected may be one of them."""
    rate = 45 if language is None or language in SPELT else 15
    room = token_budget(samples, language, most=MOST)

    assert SPARE_TOKENS + rate * samples / RATE == pytest.approx(room, abs=0.5)


@pytest.fixture(scope="module")
def listen(toy, vocabulary):
    """Return what asks a listener about noise behind a committed word; it says what was run."""

    def call(seconds, *, committed=None, language="de", most=MOST):
        # An end is never said, and nothing stops it but the room.
        endless = attrs.evolve(vocabulary, ends=frozenset())
        network = toy(seed=1, vocabulary=330)  # which goes on without a loop
        engine = Engine(network=network, vocabulary=endless, checkpoint=Checkpoint(name="toy"))
        context = ()
        if committed is not None:
            ids = vocabulary.encode(" a")
            told = tuple(Token(one, -1, place) for place, one in enumerate(ids))
            word = Word(0.0, committed, " a")
            context = (AttendedWord(word=word, frames=(0,) * len(ids), tokens=told),)
        audio = np.random.default_rng(0).normal(size=round(seconds * RATE)).astype(np.float32)
        heard = Listener(engine, StreamSettings(max_new_tokens=most))(
            audio, first_sample=0, context=context, prompt="", language=language, is_last=True
        )
        return heard.work.detokenised_ids

    return call


@pytest.mark.parametrize(
    ("committed", "unsaid"),
    [
        pytest.param(None, 3.0, id="nothing"),
        pytest.param(1.0, 2.0, id="a part"),
        pytest.param(3.0, 0.0, id="all"),
        pytest.param(9.0, 0.0, id="more than there is"),
    ],
)
def test_room_is_for_all_audio_behind_the_committed_words(listen, committed, unsaid):
    """New, or heard before and not committed: a hypothesis says both."""
    room = token_budget(round(unsaid * RATE), "de", most=MOST)

    assert listen(3.0, committed=committed) == room


def test_room_ends_where_the_option_says(listen):
    """However long the audio is."""
    assert 16 == listen(3.0, most=16)


def test_a_spelt_language_is_given_its_room(listen):
    """By the language the stream was told."""
    assert listen(1.0, language="th") == token_budget(RATE, "th", most=MOST)
    assert listen(1.0, language="th") > listen(1.0, language="de")
