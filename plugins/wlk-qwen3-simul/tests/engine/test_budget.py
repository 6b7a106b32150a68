"""The token budget covers all audio without committed text, and is always bounded."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core.plugins import AlignedWord
from wlk_core.streaming import Word
from wlk_qwen3_simul.checkpoint import Checkpoint
from wlk_qwen3_simul.engine.decoder import SPARE_TOKENS, CachedDecoder, token_budget
from wlk_qwen3_simul.engine.detokenize import WordToken
from wlk_qwen3_simul.engine.engine import DecodingOptions, Engine
from wlk_qwen3_simul.languages import LANGUAGES

RATE = 16_000
SPELLED = {"el", "fa", "hi", "mk", "th"}  # scripts that the vocabulary has few words for
MOST = 4096

lengths = st.integers(0, 30 * RATE)
languages = st.none() | st.sampled_from(sorted(LANGUAGES))
bounds = st.integers(16, MOST)


@given(lengths, languages, bounds)
def test_the_option_bounds_every_hypothesis(samples, language, limit):
    """The budget is at least one token and at most the limit, whatever the audio."""
    assert 0 < token_budget(samples, language, limit=limit) <= limit


@given(lengths, languages)
def test_spelled_scripts_have_three_times_the_budget(samples, language):
    """They get 45 tokens a second and not 15; a language to be detected may be one of them."""
    rate = 45 if language is None or language in SPELLED else 15
    budget = token_budget(samples, language, limit=MOST)

    assert SPARE_TOKENS + rate * samples / RATE == pytest.approx(budget, abs=0.5)


@pytest.fixture(scope="module")
def count_tokens(toy, vocabulary):
    """Return a function that decodes noise after a committed word and counts the tokens."""

    def call(seconds, *, committed=None, language="de", limit=MOST):
        # Without ids that end a text, only the budget stops the decoder.
        endless = attrs.evolve(vocabulary, end_ids=frozenset())
        network = toy(seed=1, vocabulary=330)  # does not fall into a loop
        engine = Engine(network=network, vocabulary=endless, checkpoint=Checkpoint(name="toy"))
        context = ()
        if committed is not None:
            ids = vocabulary.encode(" a")
            tokens = tuple(WordToken(token, -1, index) for index, token in enumerate(ids))
            word = Word(0.0, committed, " a")
            context = (AlignedWord(word=word, frames=(0,) * len(ids), tokens=tokens),)
        audio = np.random.default_rng(0).normal(size=round(seconds * RATE)).astype(np.float32)
        hypothesis = CachedDecoder(engine, DecodingOptions(max_new_tokens=limit))(
            audio,
            first_sample=0,
            remainder_samples=0,
            context=context,
            prompt="",
            language=language,
            is_last=True,
        )
        return hypothesis.work.detokenised_ids

    return call


@pytest.mark.parametrize(
    ("committed", "uncommitted"),
    [
        pytest.param(None, 3.0, id="nothing"),
        pytest.param(1.0, 2.0, id="a part"),
        pytest.param(3.0, 0.0, id="all"),
        pytest.param(9.0, 0.0, id="more than there is"),
    ],
)
def test_the_budget_is_for_all_audio_after_the_committed_words(
    count_tokens, committed, uncommitted
):
    """Audio counts that is new, or was decoded before without its words being committed."""
    budget = token_budget(round(uncommitted * RATE), "de", limit=MOST)

    assert count_tokens(3.0, committed=committed) == budget
