"""The life of a stream: clock, silences, flush, speakers, threads and backlog."""

from __future__ import annotations

import inspect
import threading

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_conformance.testing import CELL_SECONDS, CodedToken, StreamDriver, encode, silence
from wlk_core.plugins import (
    AudioFormatError,
    ClockError,
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


def test_times_are_those_of_the_coded_audio(speech, driver):
    """Every committed word has the start and the end that its code has."""
    driver.feed(speech.audio)
    driver.finish()

    assert [w.start for w in speech.words] == pytest.approx([t.start for t in driver.tokens])
    assert [w.end for w in speech.words] == pytest.approx([t.end for t in driver.tokens])


def test_a_hundred_silences_do_not_drift(speech, driver):
    """After every silence processed_up_to is the sum of all audio and silences."""
    for _ in range(100):
        driver.insert(speech.audio[:1700])
        driver.silence(0.1)
        assert driver.process().processed_up_to == pytest.approx(driver.clock, abs=1e-9)


def test_a_gap_in_the_end_times_is_a_silence(speech, driver):
    """A chunk that ends 10 s later than by its samples begins after a silence of 10 s."""
    driver.insert(speech.audio[: 16_000 * 5], end_time=5.0)
    driver.processor.insert_audio_chunk(speech.audio[: 16_000 * 5], 20.0)
    driver.finish()

    half = len(driver.tokens) // 2
    assert 20.0 == driver.processed_up_to
    assert [t.start + 15.0 for t in driver.tokens[:half]] == pytest.approx(
        [t.start for t in driver.tokens[half:]]
    )


def test_small_differences_of_the_end_times_never_add_up(speech, driver):
    """A caller's clock that is 20 ms ahead at every chunk adds no audio and no silence."""
    for index in range(1, 50):
        driver.processor.insert_audio_chunk(speech.audio[:1600], index * 0.1 + 0.02)
    driver.processor.finish()

    assert pytest.approx(4.9) == driver.processor.stats.audio_seconds
    assert pytest.approx(4.9) == driver.processor.finish().processed_up_to


@pytest.mark.parametrize("end_time", [0.9, 0.0, float("nan"), float("inf")])
def test_an_impossible_end_time_changes_nothing(speech, driver, end_time):
    """An overlap or an invalid time raises ClockError, and the audio can be inserted again."""
    driver.insert(speech.audio[:16_000])

    with pytest.raises(ClockError):
        driver.processor.insert_audio_chunk(speech.audio[16_000:17_600], end_time)

    driver.insert(speech.audio[16_000:])
    driver.finish()
    assert speech.text == driver.text


@pytest.mark.parametrize(
    "audio",
    [
        np.zeros((2, 80), dtype=np.float32),
        np.zeros(80, dtype=np.int16),
        np.zeros(80, dtype=np.float64),
        np.full(80, np.nan, dtype=np.float32),
        np.full(80, np.inf, dtype=np.float32),
        [0.0] * 80,
    ],
    ids=["two-dimensional", "int16", "float64", "nan", "infinity", "list"],
)
def test_audio_of_another_kind_changes_nothing(driver, audio):
    """Audio that is not one-dimensional finite float32 raises AudioFormatError."""
    with pytest.raises(AudioFormatError):
        driver.processor.insert_audio_chunk(audio)

    assert 0.0 == driver.processor.stats.audio_seconds


def test_inserted_audio_is_copied(speech, driver):
    """The caller may overwrite an array after inserting it."""
    chunk = speech.audio.copy()
    driver.insert(chunk)
    chunk[:] = 0.0
    driver.finish()

    assert speech.text == driver.text


@pytest.mark.parametrize("duration", [-0.1, float("nan"), float("inf"), None, True])
def test_an_impossible_silence_changes_nothing(driver, duration):
    """A silence that is negative, infinite or not a number raises ClockError."""
    with pytest.raises(ClockError):
        driver.processor.end_silence(duration)

    assert 0.0 == driver.finish().processed_up_to


@pytest.mark.parametrize("lead", [0.5, 4.9, 5.0, 3600.0])
def test_a_leading_silence_shifts_every_time(speech, driver, lead):
    """A silence before the first audio moves all times and changes no text."""
    driver.end_silence(lead)
    driver.feed(speech.audio)
    driver.finish()

    assert speech.text == driver.text
    assert [w.start + lead for w in speech.words] == pytest.approx([t.start for t in driver.tokens])


def test_end_silence_alone_commits_the_words_before_it(speech, driver):
    """Without start_silence the words before a silence come with the next Emission."""
    driver.insert(speech.audio)
    driver.end_silence(2.0)
    driver.drain()

    assert speech.text == driver.text
    assert driver.clock == pytest.approx(driver.processed_up_to)


@pytest.mark.parametrize("cells", [0.1, 0.4, 0.5, 1.5])
def test_a_word_cut_by_a_pause_is_committed_once(speech, driver, cells):
    """A pause inside a word loses, repeats and joins no word."""
    cut = round((speech.words[3].start + cells * CELL_SECONDS) * 16_000)
    driver.feed(speech.audio[:cut])
    driver.silence(3.0)
    driver.feed(speech.audio[cut:])
    driver.finish()

    assert speech.text == driver.text
    starts = [token.start for token in driver.tokens]
    assert starts == sorted(starts)
    pause = (cut / 16_000, cut / 16_000 + 3.0)
    assert all(t.end <= pause[0] + 1e-9 or t.start >= pause[1] - 1e-9 for t in driver.tokens)


def test_the_hypothesis_is_empty_after_a_flush(speech, driver):
    """A flush commits or discards every word of the hypothesis."""
    driver.insert(speech.audio)
    driver.process()
    assert driver.processor.get_buffer().tokens

    driver.start_silence()

    assert "" == driver.processor.get_buffer().text


def test_a_second_finish_commits_nothing_and_runs_no_model(speech, engine, driver):
    """A finish after the first returns no token and makes no engine call."""
    driver.feed(speech.audio)
    driver.finish()
    calls = engine.calls

    assert () == driver.finish().committed
    assert calls == engine.calls


def test_a_stream_without_audio_finishes_without_the_model(engine, driver):
    """Finishing a stream without audio makes no engine call."""
    assert ((), 0.0) == tuple(driver.finish())
    assert 0 == engine.calls


def test_calls_after_finish_are_refused(speech, driver):
    """Every call that would change a finished stream raises StreamClosed."""
    driver.finish()

    for call in (
        lambda: driver.insert(speech.audio),
        driver.process,
        driver.start_silence,
        lambda: driver.end_silence(1.0),
        lambda: driver.new_speaker(1),
    ):
        with pytest.raises(StreamClosed):
            call()


def test_reset_gives_a_new_stream(speech, driver):
    """After a reset the same audio gives the same tokens from time zero."""
    driver.feed(speech.audio)
    driver.finish()
    before = driver.tokens
    driver.processor.reset()
    again = StreamDriver(driver.processor)
    again.feed(speech.audio)
    again.finish()

    assert before == again.tokens


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


def test_a_long_looped_stream_keeps_its_state_bounded(speech, driver):
    """State and work of each round of a loop are the same in every round."""
    loop = np.concatenate((speech.audio, silence(1.0)))
    held, frames = [], []
    for _ in range(12):
        driver.feed(loop)
        driver.silence(2.0)
        stats = driver.processor.stats
        held.append(stats.state_bytes)
        frames.append(stats.encoder_frames)
    growth = np.diff(frames)

    assert held[1] == held[-1]
    assert growth[1] == growth[-1]


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
