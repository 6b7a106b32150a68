"""The three shapes of the scripted backend: exact words with any cuts, chunks and faults."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance import EngineFaults
from wlk_conformance.scripted import DIGIT_WORDS, END_OF_TEXT_ID, ScriptedBackend
from wlk_conformance.scripted.tokenizer import decode_pieces, split_word
from wlk_conformance.testing import (
    CELL_SECONDS,
    CodedToken,
    StreamDriver,
    encode,
    script_words,
)
from wlk_core import BackendError, OptionError

SHAPES = ("local-agreement", "alignatt", "native")
STREAMING = SHAPES[1:]  # those with pieces and positions of their own
SPANS = st.lists(
    st.tuples(st.integers(1, 10), st.integers(0, 20), st.integers(1, 12)), min_size=1, max_size=12
)


def script(spans):
    """Return a token for each of *spans*: its id, the cells of the pause before it, its cells."""
    tokens, cell = [], 0
    for id_, gap, cells in spans:
        tokens.append(CodedToken(id_, cell + gap, cells))
        cell += gap + cells
    return tokens


def transcribe(audio, shape, *, chunk_seconds=1.0, backend=None):
    """Return the driver of a finished stream of *audio*."""
    stream = (backend or ScriptedBackend()).create_processor(policy=shape)
    driver = StreamDriver(stream)
    driver.feed(audio, chunk_seconds=chunk_seconds)
    driver.drain()
    driver.finish()
    return driver


@pytest.mark.parametrize("shape", STREAMING)
@settings(max_examples=30, deadline=None)
@given(SPANS, st.sampled_from([0.05, 0.3, 1.0, 60.0]), st.integers(0, 3000))
def test_words_and_times_are_those_of_the_script(shape, spans, chunk_seconds, lead):
    """Every word comes once, in order, within a cell of where it was spoken, in any chunks."""
    tokens = script(spans)
    audio = np.concatenate([np.zeros(lead, dtype=np.float32), encode(tokens)])
    driver = transcribe(audio, shape, chunk_seconds=chunk_seconds)
    words = [word.shifted(lead / 16_000) for word in script_words(tokens, DIGIT_WORDS)]
    errors = [
        max(abs(word.start - token.start), abs(word.end - token.end))
        for word, token in zip(words, driver.tokens, strict=True)
    ]

    assert "".join(word.text for word in words).strip() == driver.text
    assert max(errors) <= CELL_SECONDS + 1e-9


@pytest.mark.parametrize("shape", STREAMING)
@settings(max_examples=30, deadline=None)
@given(SPANS, st.floats(0.0, 1.0))
def test_a_cut_anywhere_loses_and_repeats_nothing(shape, spans, share):
    """A silence anywhere, also inside a word, changes no word."""
    tokens = script(spans)
    audio = encode(tokens)
    cut = int(share * len(audio))
    driver = StreamDriver(ScriptedBackend().create_processor(policy=shape))
    driver.feed(audio[:cut])
    driver.silence(2.0)
    driver.feed(audio[cut:])
    driver.finish()

    assert "".join(DIGIT_WORDS[token.id - 1] for token in tokens).strip() == driver.text


@pytest.mark.parametrize("shape", STREAMING)
@settings(max_examples=20, deadline=None)
@given(
    SPANS,
    st.sets(st.integers(1, 60), max_size=6),
    st.sampled_from([0.5, 2.0]),
    st.sets(st.integers(0, 30), max_size=4),
    st.booleans(),
)
def test_an_engine_that_fails_changes_nothing(  # noqa: PLR0917 -- all drawn by hypothesis
    shape, spans, faults, chunk_seconds, flushes, is_after
):
    """Calls that failed, flushes among them, are repeated; more audio may arrive in between."""
    audio = encode(script(spans))
    expected = transcribe(audio, shape)
    backend = ScriptedBackend(**{"fail_after" if is_after else "fail_before": faults})
    engine_calls = EngineFaults.of(backend.engine_calls)
    driver = StreamDriver(backend.create_processor(policy=shape))
    size = round(16_000 * chunk_seconds)
    for number, first in enumerate(range(0, len(audio), size)):
        driver.insert(audio[first : first + size])
        if number in flushes and engine_calls.count + 1 in faults:
            with pytest.raises(BackendError):
                driver.finish()
        for _ in range(3):
            try:
                driver.process()
            except BackendError:
                continue
    engine_calls.fail_before = engine_calls.fail_after = frozenset()
    with suppress(BackendError):  # an error of the last call, which returned text
        driver.process()
    driver.finish()

    assert expected.tokens == driver.tokens


@pytest.mark.parametrize("call", range(1, 8))
def test_padding_that_failed_is_not_decoded(call):
    """A flush that fails in the middle of its padding leaves no pause in audio that follows."""
    audio = encode([CodedToken(3, 2, 6), CodedToken(4, 9, 6)])
    cut = round(5.5 * 1280)
    expected = transcribe(audio, "native")
    backend = ScriptedBackend()
    driver = StreamDriver(backend.create_processor(policy="native"))
    driver.feed(audio[:cut])
    driver.drain()
    faults = EngineFaults.of(backend.engine_calls)
    faults.fail_before = frozenset({faults.count + call})
    with pytest.raises(BackendError):
        driver.finish()
    driver.insert(audio[cut:])
    driver.finish()

    assert expected.tokens == driver.tokens


@pytest.mark.parametrize("vocabulary", [("你好", "世界", "。"), ("ส", "วัส", "ดี"), (" a", "b", "!")])
@pytest.mark.parametrize("shape", SHAPES)
def test_characters_in_pieces_come_out_whole(shape, vocabulary):
    """Bytes of a character wait, in committed text and in the hypothesis."""
    tokens = [CodedToken(index % 3 + 1, 1 + 3 * index, 3) for index in range(20)]
    driver = StreamDriver(ScriptedBackend(vocabulary=vocabulary).create_processor(policy=shape))
    shown = []
    audio = encode(tokens)
    for first in range(0, len(audio), 4000):
        driver.feed(audio[first : first + 4000])
        shown.append(driver.text + driver.processor.get_buffer().text)
    driver.finish()
    truth = "".join(vocabulary[token.id - 1] for token in tokens).strip()

    assert truth == driver.text
    assert all(truth.startswith(text) for text in shown)
    assert any(shown)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0], ids=["never", "sometimes", "always"])
def test_an_end_of_text_is_no_end_of_the_stream(share):
    """Ends of text anywhere keep words, times and spacing: only the decoder starts over."""
    rng = np.random.default_rng(5)
    tokens, cell = [], 2
    for index in range(60):
        tokens.append(CodedToken(index % 10 + 1, cell, 3))
        cell += 3
        if rng.random() < share:
            tokens.append(CodedToken(END_OF_TEXT_ID, cell, 1))
            cell += 1
    spoken = [token for token in tokens if token.id != END_OF_TEXT_ID]
    driver = transcribe(encode(tokens), "native")
    words = script_words(spoken, DIGIT_WORDS)

    assert "".join(word.text for word in words).strip() == driver.text
    assert [word.start for word in words] == pytest.approx([t.start for t in driver.tokens])


def test_a_native_stream_has_a_fixed_delay():
    """A word is committed six cells after its end, and not a cell before."""
    audio = encode([CodedToken(3, 2, 3)], cells=20)
    driver = StreamDriver(ScriptedBackend().create_processor(policy="native"))
    driver.feed(audio, chunk_seconds=CELL_SECONDS)
    commit_times = [record.audio_time for record in driver.records if record.emission.committed]

    assert [(5 + 6) * CELL_SECONDS] == pytest.approx(commit_times)


def test_a_word_at_the_end_of_the_audio_is_not_final():
    """A word that ends within the border of a tick is shown and not committed."""
    audio = encode([CodedToken(3, 4, 3), CodedToken(4, 9, 3)], cells=30)
    driver = StreamDriver(ScriptedBackend().create_processor(policy="alignatt"))
    driver.feed(audio[:16_000])

    assert "two" == driver.text
    assert " three" == driver.processor.get_buffer().text


@pytest.mark.parametrize("shape", STREAMING)
def test_state_and_work_are_bounded(shape):
    """Ten times the audio holds what a tenth holds and costs ten times as much."""
    audio = encode(script([(index % 10 + 1, 3, 4) for index in range(100)]))
    driver = StreamDriver(ScriptedBackend().create_processor(policy=shape))
    held, work = [], []
    for _ in range(10):
        driver.feed(audio)
        driver.drain()
        held.append(driver.processor.stats.state_bytes)
        work.append(driver.processor.stats.encoder_frames)

    assert max(held[2:]) <= 1.1 * held[1]
    assert work[9] - work[8] <= 1.1 * (work[2] - work[1])


def test_an_option_of_another_policy_is_refused():
    """A native recognizer has no tick that can be set."""
    with pytest.raises(OptionError, match="policy=native takes no tick_seconds"):
        ScriptedBackend().create_processor(policy="native", tick_seconds=2.0)


@given(st.text(min_size=1))
def test_pieces_spell_their_word(text):
    """The pieces of a word are two or more, and join to the word."""
    pieces = split_word(text)

    assert text == decode_pieces(piece.data for piece in pieces)
    assert [True] + [False] * (len(pieces) - 1) == [piece.is_start for piece in pieces]
    assert [False] * (len(pieces) - 1) + [True] == [piece.is_end for piece in pieces]
