"""The life of a stream: clock, silences, flush, speakers, threads and backlog."""

from __future__ import annotations

import inspect
import threading

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from wlk_conformance.testing import CodedToken, StreamDriver, encode
from wlk_core.plugins import (
    ConcurrentCallError,
    OnlineProcessor,
    OnlineStream,
    StreamClosed,
    SupportsSpeakerTurns,
)


@pytest.fixture
def driver(engine):
    """Return a driver of a fresh stream."""
    return StreamDriver(engine.stream(language="en"))


CALLS = [
    (protocol, name)
    for protocol in (OnlineProcessor, SupportsSpeakerTurns)
    for name in vars(protocol)
    if not name.startswith("_")
]


@pytest.mark.parametrize(("protocol", "name"), CALLS, ids=[name for _, name in CALLS])
def test_a_stream_has_every_call_of_the_protocols(protocol, name):
    """Each call of an online processor, and new_speaker, has the signature of the protocol."""
    declared, offered = getattr(protocol, name), getattr(OnlineStream, name)

    assert isinstance(declared, property) == isinstance(offered, property)
    if isinstance(declared, property):
        declared, offered = declared.fget, offered.fget
    assert inspect.signature(declared) == inspect.signature(offered)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(160, 60_000), min_size=1, max_size=12))
def test_the_words_do_not_depend_on_how_the_audio_was_cut(speech, coded_engine, lengths):
    """Any partition of the audio gives the same tokens as a single insert."""
    driver = StreamDriver(coded_engine().stream())
    position = 0
    while position < len(speech.audio):
        length = lengths[position % len(lengths)]
        driver.insert(speech.audio[position : position + length])
        driver.process()
        position += length
    driver.finish()
    whole = StreamDriver(coded_engine().stream())
    whole.insert(speech.audio)
    whole.finish()

    assert whole.tokens == driver.tokens
    assert speech.text == whole.text


def test_words_have_the_speaker_of_their_turn(speech, driver):
    """Words before the turn keep the old speaker, those from it on have the new one."""
    driver.feed(speech.audio[: 16_000 * 5])
    driver.new_speaker("ann")
    driver.feed(speech.audio[16_000 * 5 : 16_000 * 10])
    driver.silence(1.0)
    driver.new_speaker("bob")
    driver.feed(speech.audio[16_000 * 10 :])
    driver.finish()

    expected = [
        None if token.start < 5.0 else "ann" if token.start < 11.0 else "bob"
        for token in driver.tokens
    ]
    assert expected == [token.speaker for token in driver.tokens]
    assert len(speech.words) == len(driver.tokens)


def test_audio_after_a_late_turn_is_kept(speech, driver):
    """A turn reported after later audio still divides the words by their times."""
    driver.insert(speech.audio)
    tokens = driver.new_speaker("bob", start=4.0).committed

    assert speech.text == "".join(token.text for token in tokens)
    assert {"bob"} == {token.speaker for token in tokens if token.start >= 4.0}
    assert {None} == {token.speaker for token in tokens if token.start < 4.0}


def test_overlapping_calls_are_refused_and_close_waits_for_the_step(speech, coded_engine):
    """A call during another raises ConcurrentCallError; close takes effect after the step."""
    entered, release = threading.Event(), threading.Event()

    def block():
        entered.set()
        assert release.wait(120)

    stream = coded_engine(before_call=block).stream()
    stream.insert_audio_chunk(speech.audio)
    results = []
    thread = threading.Thread(target=lambda: results.append(stream.process_iter()))
    thread.start()
    assert entered.wait(120)

    for call in (stream.process_iter, stream.start_silence, stream.finish, stream.reset):
        with pytest.raises(ConcurrentCallError):
            call()
    stream.insert_audio_chunk(speech.audio)  # never waits
    assert "" == stream.get_buffer().text
    assert stream.stats.audio_seconds > 0
    stream.close()
    release.set()
    thread.join(120)

    assert 1 == len(results)
    with pytest.raises(StreamClosed):
        stream.process_iter()
    stream.close()


def test_stats_after_finish_still_count_the_state(speech, driver):
    """state_bytes is positive after finish and zero after close."""
    driver.feed(speech.audio)
    driver.finish()
    assert driver.processor.stats.state_bytes > 0

    driver.processor.close()

    assert 0 == driver.processor.stats.state_bytes


def test_pieces_of_words_are_joined_without_spaces(coded_engine):
    """Tokens keep their own spacing; only between two utterances is a space added."""
    engine = coded_engine(("trans", "crip", "tion", ",", " un", "believ", "able"))
    audio = encode([CodedToken(1 + i, 3 * i, 3) for i in range(7)])
    driver = StreamDriver(engine.stream())
    driver.feed(audio, chunk_seconds=0.24)
    driver.silence(1.0)
    driver.feed(audio, chunk_seconds=0.24)
    driver.finish()

    assert driver.text == "transcription, unbelievable transcription, unbelievable"


def test_a_script_without_spaces_gets_no_spaces(coded_engine):
    """Two utterances of Chinese are joined without a space."""
    engine = coded_engine(("你好", "世界"))
    audio = encode([CodedToken(1, 0, 3), CodedToken(2, 4, 3)])
    driver = StreamDriver(engine.stream())
    driver.feed(audio)
    driver.silence(1.0)
    driver.feed(audio)
    driver.finish()

    assert driver.text == "你好世界你好世界"
