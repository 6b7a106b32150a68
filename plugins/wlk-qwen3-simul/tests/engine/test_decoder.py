"""The cache of a decoder never changes its words, and its text is bounded by the audio."""

from __future__ import annotations

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core.plugins import AlignedWord, BackendError, ModelNotFoundError
from wlk_qwen3_simul.checkpoint import Checkpoint
from wlk_qwen3_simul.engine.decoder import CachedDecoder, token_budget
from wlk_qwen3_simul.engine.detokenize import WordToken
from wlk_qwen3_simul.engine.encoder import IncrementalEncoder
from wlk_qwen3_simul.engine.engine import DecodingOptions, Engine
from wlk_qwen3_simul.engine.prompt import MAX_HEADER_TOKENS, ChatPrompt
from wlk_qwen3_simul.engine.vocabulary import TEXT_START

RATE = 16_000
WINDOW = 2 * RATE  # samples in a window of the toy


@pytest.fixture
def engine(toy, vocabulary):
    """Return an engine around a toy that emits words."""
    return engine_of(toy, vocabulary)


def engine_of(toy, vocabulary, **scales):
    """Return an engine around a toy for which some special tokens are more likely."""
    network = toy(seed=11, vocabulary=330)
    for name, scale in scales.items():
        network.out[:, IDS[name](vocabulary)] *= scale
    return Engine(network=network, vocabulary=vocabulary, checkpoint=Checkpoint(name="toy"))


IDS = {
    "text_start": lambda vocabulary: vocabulary.special_ids[TEXT_START],
    "ends": lambda vocabulary: list(vocabulary.end_ids),
}


def noise(seconds, seed=0):
    """Return audio whose seconds are of different loudness."""
    rng = np.random.default_rng(seed)
    loud = np.repeat(rng.uniform(0.01, 1.0, size=int(seconds) + 1), RATE)
    return (rng.normal(size=round(seconds * RATE)) * loud[: round(seconds * RATE)]).astype("f4")


def call(
    decoder, audio, *, start=0, context=(), language="en", is_last=False, prompt="", remainder=0
):
    """Call the decoder with the utterance from *start* on."""
    return decoder(
        audio[start:],
        first_sample=start,
        remainder_samples=remainder,
        context=context,
        prompt=prompt,
        language=language,
        is_last=is_last,
    )


def summary(hypothesis):
    """Return everything in the words that has to be equal in two calls."""
    return [
        (word.text, word.frames, [token.id for token in word.tokens], word.start)
        for word in hypothesis.words
    ]


@settings(max_examples=15)
@given(
    st.lists(st.floats(0.1, 2.5), min_size=1, max_size=6),
    st.integers(0, 99),
    st.tuples(
        st.sampled_from(["en", None]),
        st.sampled_from([(), ("en", "de")]),
        st.integers(0, 3),
        st.sampled_from([None, 0, 8, 40]),
    ),
)
def test_every_call_returns_what_a_fresh_decoder_would(toy, vocabulary, lengths, seed, choice):
    """That holds while audio grows, words are committed, windows close and the buffer is cut."""
    engine = engine_of(toy, vocabulary, text_start=10.0)
    language, languages, taken, rewind = choice
    audio = noise(sum(lengths), seed)
    options = DecodingOptions(max_new_tokens=12, rewind_frames=rewind, languages=languages)
    cached = CachedDecoder(engine, options)
    end, start, context = 0, 0, ()
    for length in lengths:
        end += max(1, round(length * RATE))
        forced = language if language or not context else "en"
        first = call(cached, audio[:end], start=start, context=context, language=forced)
        fresh = CachedDecoder(engine, options)
        call(fresh, audio[:start], language=forced) if start else None
        again = call(fresh, audio[:end], start=start, context=context, language=forced)

        assert summary(again) == summary(first)
        assert again.language == first.language
        context += first.words[:taken]
        if end - start > 2 * WINDOW:
            start = (end - WINDOW) // WINDOW * WINDOW
            context = context[-1:]


def test_the_end_of_a_dropped_word_is_left_out(engine, vocabulary):
    """The audio tokens of the remainder are not run, and the shortened window is cached."""
    audio, options = noise(2.5), DecodingOptions(max_new_tokens=4)
    decoder = CachedDecoder(engine, options)
    positions, results = [], []
    for used, remainder in ((CachedDecoder(engine, options), 0), (decoder, 3000), (decoder, 3000)):
        engine.network.forwards.clear()
        results.append(call(used, audio, remainder=remainder))
        positions.append(engine.network.forwards[0])
    whole, shortened, cached = positions

    assert shortened == whole - 2  # 3000 samples are 2.3 tokens
    assert cached <= shortened - 24 + 4  # the closed window is cached, and the draft is verified
    assert summary(results[1]) == summary(results[2])


def test_only_new_positions_are_run(engine, vocabulary):
    """The prompt and closed windows are run once, however many calls follow."""
    audio = noise(9.0)
    decoder = CachedDecoder(engine, DecodingOptions(max_new_tokens=4))
    network = engine.network
    positions = []
    for second in range(1, 10):
        network.forwards.clear()
        call(decoder, audio[: second * RATE])
        positions.append(network.forwards[0])
    prompt = ChatPrompt.build(vocabulary)
    closed, opened, draft = 26, 26, 4  # tokens: a window just closed, the open one, the draft

    after_audio = len(prompt.after_audio) + len(prompt.header("en"))
    assert max(positions[1:]) <= closed + opened + after_audio + draft
    assert positions[-1] <= positions[2]


def test_a_forward_that_fails_halfway_leaves_no_trace(engine, monkeypatch):
    """The same call succeeds when repeated, also after a KV cache could not be created."""
    audio, network = noise(5.0), engine.network
    decoder, sane = (CachedDecoder(engine, DecodingOptions(max_new_tokens=6)) for _ in range(2))
    call(decoder, audio[: 3 * RATE])
    call(sane, audio[: 3 * RATE])
    for later in range(1, 4):
        network.fails = {len(network.forwards) + later}
        with pytest.raises(RuntimeError, match="out of memory"):
            for _ in range(9):
                call(decoder, audio)
        network.fails = set()
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(network, "new_kv_cache", exhausted)
        call(decoder, audio)

    assert summary(call(decoder, audio)) == summary(call(sane, audio))


def exhausted():
    """Fail like a device without memory for another KV cache."""
    raise MemoryError


@pytest.mark.parametrize("seed", range(6))
def test_the_language_is_the_likeliest_of_those_allowed(engine, vocabulary, seed):
    """The header is chosen among theirs, and the text is that after the same header forced."""
    audio, network = noise(1.5, seed), engine.network
    allowed = CachedDecoder(engine, DecodingOptions(max_new_tokens=6, languages=("en", "de")))
    found = call(allowed, audio, language=None)
    prompt = ChatPrompt.build(vocabulary)
    windows = IncrementalEncoder(network).encode(audio, first_sample=0)
    span = (len(prompt.before_audio), len(prompt.before_audio) + windows.tokens)
    before = [prompt.before_audio, *windows.windows]
    following = [header[1] for header in prompt.headers(("en", "de"))]
    parts = [*before, (*prompt.after_audio, *prompt.header("en")[:1])]
    scores = [
        network.forward(network.new_kv_cache(), parts, rows=1, audio=span, among=[token]).logprobs
        for token in following
    ]

    expected = ("en", "de", None)[int(np.argmax(scores))]
    assert found.language == expected
    if expected is not None:
        forced = CachedDecoder(engine, DecodingOptions(max_new_tokens=6))
        assert summary(call(forced, audio, language=expected)) == summary(found)


def test_work_is_counted(engine):
    """The counts of frames, positions, forwards and transfers equal those of the network."""
    network = engine.network
    result = call(CachedDecoder(engine, DecodingOptions(max_new_tokens=5)), noise(2.5))

    # The window of 2 s, and the half second after it, which counts as a whole one.
    assert 100 * network.encoded == 300
    assert result.work.encoder_frames == 300
    assert result.work.decoder_positions == sum(network.forwards)
    assert len(network.forwards) == result.work.decoder_forwards == result.work.host_syncs


def test_a_model_that_never_emits_a_language_is_an_error(engine):
    """It would never return a word.  The error changes no state, and setting the language helps."""
    audio = noise(3.0)
    decoder = CachedDecoder(engine, DecodingOptions(max_new_tokens=30))
    with pytest.raises(BackendError, match="set the language") as caught:
        call(decoder, audio, language=None)

    assert not caught.value.retryable
    fresh = CachedDecoder(engine, DecodingOptions(max_new_tokens=30))
    assert summary(call(decoder, audio)) == summary(call(fresh, audio))


def test_a_text_that_ends_at_once_is_silence(toy, vocabulary):
    """Silence needs no header, even if the language has to be detected."""
    engine = engine_of(toy, vocabulary, ends=20.0)
    result = call(CachedDecoder(engine, DecodingOptions()), noise(3.0), language=None)

    assert result.words == ()
    assert result.language is None
    assert result.work.decoder_forwards < MAX_HEADER_TOKENS


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
    toy, vocabulary, committed, uncommitted
):
    """New audio counts, and so does audio decoded earlier whose words are not committed."""
    # Without end ids only the budget stops the decoder, which does not fall into a loop.
    engine = Engine(
        network=toy(seed=1, vocabulary=330),
        vocabulary=attrs.evolve(vocabulary, end_ids=frozenset()),
        checkpoint=Checkpoint(name="toy"),
    )
    context = ()
    if committed is not None:
        ids = vocabulary.encode(" a")
        tokens = tuple(WordToken(token, -1, index) for index, token in enumerate(ids))
        context = (AlignedWord(0.0, committed, " a", frames=(0,) * len(ids), tokens=tokens),)
    audio = np.random.default_rng(0).normal(size=3 * RATE).astype(np.float32)
    decoder = CachedDecoder(engine, DecodingOptions(max_new_tokens=4096))
    result = call(decoder, audio, context=context, language="de", is_last=True)

    budget = token_budget(round(uncommitted * RATE), "de", limit=4096)
    assert result.work.detokenised_ids == budget


def test_a_tokenizer_with_more_ids_than_the_network_is_refused(toy, vocabulary):
    """Its special tokens would have no embedding, and every stream would fail at once."""
    rows = max(vocabulary.special_ids.values())
    with pytest.raises(ModelNotFoundError, match=f"up to {vocabulary.highest_id}.* of {rows} rows"):
        Engine(
            network=toy(vocabulary=rows), vocabulary=vocabulary, checkpoint=Checkpoint(name="own")
        )
