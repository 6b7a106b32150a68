"""What is kept from call to call never changes what is said."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core import BackendError, Work
from wlk_qwen3_simul.checkpoint import Checkpoint
from wlk_qwen3_simul.simul.engine import Engine, StreamSettings
from wlk_qwen3_simul.simul.listener import Listener
from wlk_qwen3_simul.text.header import MOST_TOKENS
from wlk_qwen3_simul.text.vocabulary import TEXT_START

RATE = 16_000
WINDOW = 2 * RATE  # of the toy


@pytest.fixture
def engine(toy, vocabulary):
    """Return a toy that says words."""
    return engine_of(toy, vocabulary)


def engine_of(toy, vocabulary, **loud):
    """Return an engine around a toy whose ids are those of the vocabulary, some of them louder."""
    network = toy(seed=11, vocabulary=330)
    for mark, times in loud.items():
        network.out[:, MARKS[mark](vocabulary)] *= times
    return Engine(network=network, vocabulary=vocabulary, checkpoint=Checkpoint(name="toy"))


MARKS = {
    "begins": lambda vocabulary: vocabulary.marks[TEXT_START],
    "ends": lambda vocabulary: list(vocabulary.ends),
}


def noise(seconds, seed=0):
    """Return audio of which every second sounds different."""
    rng = np.random.default_rng(seed)
    loud = np.repeat(rng.uniform(0.01, 1.0, size=int(seconds) + 1), RATE)
    return (rng.normal(size=round(seconds * RATE)) * loud[: round(seconds * RATE)]).astype("f4")


def call(listener, audio, *, start=0, context=(), language="en", is_last=False, prompt=""):
    """Call the listener with the run from *start* on."""
    return listener(
        audio[start:],
        first_sample=start,
        context=context,
        prompt=prompt,
        language=language,
        is_last=is_last,
    )


def said(heard):
    """Return all that matters of an answer."""
    return [
        (one.word.text, one.frames, [token.id for token in one.tokens], one.word.start)
        for one in heard.words
    ]


@settings(max_examples=15)
@given(
    st.lists(st.floats(0.1, 2.5), min_size=1, max_size=6),
    st.integers(0, 99),
    st.tuples(st.sampled_from(["en", None]), st.integers(0, 3), st.sampled_from([None, 0, 8, 40])),
)
def test_every_call_says_what_a_fresh_one_would(toy, vocabulary, lengths, seed, choice):
    """Behind growing audio, committed words, closed windows and cuts, astray or not."""
    engine = engine_of(toy, vocabulary, begins=10.0)
    language, taken, rewind = choice
    audio = noise(sum(lengths), seed)
    settings = StreamSettings(max_new_tokens=12, rewind_frames=rewind)
    kept = Listener(engine, settings)
    end, start, context = 0, 0, ()
    for length in lengths:
        end += max(1, round(length * RATE))
        told = language if language or not context else "en"
        heard = call(kept, audio[:end], start=start, context=context, language=told)
        fresh = Listener(engine, settings)
        call(fresh, audio[:start], language=told) if start else None
        again = call(fresh, audio[:end], start=start, context=context, language=told)

        assert said(again) == said(heard)
        assert again.language == heard.language
        context += heard.words[:taken]
        if end - start > 2 * WINDOW:
            start = (end - WINDOW) // WINDOW * WINDOW
            context = context[-1:]


def test_only_what_is_new_is_run(engine):
    """Prompt and closed windows are run once, however many calls follow."""
    audio = noise(9.0)
    listener = Listener(engine, StreamSettings(max_new_tokens=4))
    network = engine.network
    runs = []
    for second in range(1, 10):
        network.passes.clear()
        call(listener, audio[: second * RATE])
        runs.append(network.passes[0])

    # At most the open window of 26 tokens, one that has just closed, and what stands behind it.
    assert max(runs[1:]) <= 26 + 26 + len(listener._prompt.after) + 6 + 4
    assert runs[-1] <= runs[2]


def test_a_pass_that_fails_halfway_leaves_nothing_behind(engine):
    """The same call, made again, says what it would have said."""
    audio = noise(5.0)
    listener, sane = (Listener(engine, StreamSettings(max_new_tokens=6)) for _ in range(2))
    call(listener, audio[: 3 * RATE])
    call(sane, audio[: 3 * RATE])
    for later in range(1, 4):
        engine.network.fails = {len(engine.network.passes) + later}
        with pytest.raises(RuntimeError, match="out of memory"):
            for _ in range(9):
                call(listener, audio)
        engine.network.fails = set()

    assert said(call(sane, audio)) == said(call(listener, audio))


def test_a_run_that_is_over_is_forgotten(engine):
    """The next one says what it would have said as the first."""
    audio = noise(3.0)
    listener = Listener(engine, StreamSettings(max_new_tokens=6))
    first = call(listener, audio)
    held = listener.nbytes
    call(listener, noise(4.0), start=0)
    listener.forget()

    assert 0 < held
    assert listener.nbytes < held / 10
    assert said(first) == said(call(listener, audio))


def test_words_before_a_cut_give_the_first_word_its_space(engine):
    """Behind earlier text a word is joined to it; at the start of all it has no space."""
    audio = noise(2.0)
    fresh = [Listener(engine, StreamSettings(max_new_tokens=30)) for _ in range(2)]
    alone = call(fresh[0], audio, is_last=True).words[0].word.text
    behind = call(fresh[1], audio, is_last=True, prompt="earlier").words[0].word.text

    assert alone == alone.lstrip()
    assert behind.lstrip() == alone


def test_work_is_counted(engine):
    """Frames, positions, passes and transfers are those the network saw."""
    network = engine.network
    heard = call(Listener(engine, StreamSettings(max_new_tokens=5)), noise(2.5))

    # The window of 2 s and the half second behind it, which is encoded as a whole one.
    assert 100 * network.encoded == heard.work.encoder_frames == 300
    assert sum(network.passes) == heard.work.decoder_positions
    assert len(network.passes) == heard.work.decoder_forwards == heard.work.host_syncs
    assert isinstance(heard.work, Work)


def test_a_model_that_never_says_a_language_is_told_so(engine):
    """It would be silent for ever; nothing is changed, and with a language it is heard."""
    audio = noise(3.0)
    listener = Listener(engine, StreamSettings(max_new_tokens=30))
    with pytest.raises(BackendError, match="give the language") as caught:
        call(listener, audio, language=None)

    assert not caught.value.retryable
    fresh = Listener(engine, StreamSettings(max_new_tokens=30))
    assert said(call(fresh, audio)) == said(call(listener, audio))


def test_a_text_that_ends_at_once_is_silence(toy, vocabulary):
    """With a language to detect as with one that is told."""
    engine = engine_of(toy, vocabulary, ends=20.0)
    heard = call(Listener(engine, StreamSettings()), noise(3.0), language=None)

    assert () == heard.words
    assert heard.language is None
    assert heard.work.decoder_forwards < MOST_TOKENS


@pytest.mark.parametrize("samples", [1, 150, 200, 201, 3200])
def test_the_shortest_audio_is_heard(engine, samples):
    """Shorter than a frame, and shorter than what mirrors it (defects B27, D15)."""
    listener = Listener(engine, StreamSettings(max_new_tokens=5))
    heard = call(listener, noise(1.0)[:samples], is_last=True)

    assert heard.work.encoder_frames == 100
