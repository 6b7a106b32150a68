"""What the sessions and rules of the suite do not prove of the scripted backend."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance import EngineFaults
from wlk_conformance.scripted import DIGIT_WORDS, END_OF_TEXT_ID, ScriptedBackend
from wlk_conformance.scripted.native import decode_pieces, split_word
from wlk_conformance.testing import (
    CELL_SECONDS,
    CodedToken,
    StreamDriver,
    encode,
    script_words,
)
from wlk_core import BackendError


def transcribe(audio):
    """Return the driver of a finished native stream of *audio*."""
    driver = StreamDriver(ScriptedBackend().create_processor(policy="native"))
    driver.feed(audio)
    driver.end()
    return driver


@pytest.mark.parametrize("call", range(1, 8))
def test_padding_that_failed_is_not_decoded(call):
    """A flush that fails in the middle of its padding leaves no pause in audio that follows."""
    audio = encode([CodedToken(3, 2, 6), CodedToken(4, 9, 6)])
    cut = round(5.5 * 1280)
    expected = transcribe(audio)
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
    driver = transcribe(encode(tokens))
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


@given(st.text(min_size=1))
def test_pieces_spell_their_word(text):
    """The pieces of a word are two or more, and join to the word."""
    pieces = split_word(text)

    assert text == decode_pieces(piece.data for piece in pieces)
    assert [True] + [False] * (len(pieces) - 1) == [piece.is_start for piece in pieces]
    assert [False] * (len(pieces) - 1) + [True] == [piece.is_end for piece in pieces]
