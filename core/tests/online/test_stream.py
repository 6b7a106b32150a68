"""The life of a stream: clock, flush, threads and failure, on the scripted engine."""

from __future__ import annotations

import inspect
import threading

from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
import pytest

from wlk_core import (
    AudioFormatError,
    BackendError,
    ClockError,
    ConcurrentCallError,
    LocalAgreementRecognizer,
    OnlineProcessor,
    OnlineStream,
    StreamBroken,
    StreamClosed,
    SupportsSpeakerTurns,
)
from wlk_core.testing import (
    CELL_SECONDS,
    CodedToken,
    StreamDriver,
    encode,
    script_words,
    silence,
)

DIGITS = tuple(
    f" {d}"
    for d in ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
)
SCRIPT = [CodedToken(1 + i * 7 % 10, 2 + 6 * i, 2 + i % 4) for i in range(30)]
AUDIO = encode(SCRIPT, cells=190)
WORDS = script_words(SCRIPT, DIGITS)
TEXT = "".join(word.text for word in WORDS).strip()


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
    """Each call of an online processor, and new_speaker, takes what the protocol states."""
    declared, offered = getattr(protocol, name), getattr(OnlineStream, name)

    assert isinstance(declared, property) == isinstance(offered, property)
    if isinstance(declared, property):
        declared, offered = declared.fget, offered.fget
    assert inspect.signature(declared) == inspect.signature(offered)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(160, 60_000), min_size=1, max_size=12))
def test_the_words_do_not_depend_on_how_the_audio_was_cut(coded_engine, lengths):
    """Any partition gives the same tokens as one insert of everything."""
    driver = StreamDriver(coded_engine().stream())
    position = 0
    while position < len(AUDIO):
        length = lengths[position % len(lengths)]
        driver.insert(AUDIO[position : position + length])
        driver.process()
        position += length
    driver.finish()
    whole = StreamDriver(coded_engine().stream())
    whole.insert(AUDIO)
    whole.finish()

    assert whole.tokens == driver.tokens
    assert TEXT == whole.text


def test_times_are_those_of_the_script(driver):
    """Every word has the start and the end that was coded."""
    driver.feed(AUDIO)
    driver.finish()

    assert [w.start for w in WORDS] == pytest.approx([t.start for t in driver.tokens])
    assert [w.end for w in WORDS] == pytest.approx([t.end for t in driver.tokens])


def test_a_hundred_silences_do_not_drift(driver):
    """After any number of silences processed_up_to is still the sum of what was given."""
    for _ in range(100):
        driver.insert(AUDIO[:1700])
        driver.silence(0.1)
        assert driver.process().processed_up_to == pytest.approx(driver.clock, abs=1e-9)


def test_a_gap_in_the_end_times_is_a_silence(driver):
    """A chunk that ends later than its samples say begins behind a pause of that length."""
    driver.insert(AUDIO[: 16_000 * 5], end_time=5.0)
    driver.processor.insert_audio_chunk(AUDIO[: 16_000 * 5], 20.0)
    driver.finish()

    half = len(driver.tokens) // 2
    assert 20.0 == driver.processed_up_to
    assert [t.start + 15.0 for t in driver.tokens[:half]] == pytest.approx(
        [t.start for t in driver.tokens[half:]]
    )


def test_small_differences_of_the_end_times_never_add_up(driver):
    """A caller's clock that is 20 ms off stays 20 ms off."""
    for index in range(1, 50):
        driver.processor.insert_audio_chunk(AUDIO[:1600], index * 0.1 + 0.02)
    driver.processor.finish()

    assert pytest.approx(4.9) == driver.processor.stats.audio_seconds
    assert pytest.approx(4.9) == driver.processor.finish().processed_up_to


@pytest.mark.parametrize("end_time", [0.9, 0.0, float("nan"), float("inf")])
def test_an_impossible_end_time_changes_nothing(driver, end_time):
    """An overlap or a time that is none raises ClockError, and the audio can be given again."""
    driver.insert(AUDIO[:16_000])

    with pytest.raises(ClockError):
        driver.processor.insert_audio_chunk(AUDIO[16_000:17_600], end_time)

    driver.insert(AUDIO[16_000:])
    driver.finish()
    assert TEXT == driver.text


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
    """What is not one-dimensional finite float32 raises AudioFormatError."""
    with pytest.raises(AudioFormatError):
        driver.processor.insert_audio_chunk(audio)

    assert 0.0 == driver.processor.stats.audio_seconds


def test_inserting_copies(driver):
    """The caller may use the array again."""
    chunk = AUDIO.copy()
    driver.insert(chunk)
    chunk[:] = 0.0
    driver.finish()

    assert TEXT == driver.text


@pytest.mark.parametrize("duration", [-0.1, float("nan"), float("inf"), None, True])
def test_an_impossible_silence_changes_nothing(driver, duration):
    """A silence lasts a finite number of seconds, zero or more."""
    with pytest.raises(ClockError):
        driver.processor.end_silence(duration)

    assert 0.0 == driver.finish().processed_up_to


@pytest.mark.parametrize("lead", [0.5, 4.9, 5.0, 3600.0])
def test_a_leading_silence_shifts_every_time(driver, lead):
    """Nothing else changes with a silence before the first audio."""
    driver.end_silence(lead)
    driver.feed(AUDIO)
    driver.finish()

    assert TEXT == driver.text
    assert [w.start + lead for w in WORDS] == pytest.approx([t.start for t in driver.tokens])


def test_a_silence_that_was_not_announced_flushes_what_was_before_it(driver):
    """end_silence alone brings the words before it with the next Emission."""
    driver.insert(AUDIO)
    driver.end_silence(2.0)
    driver.drain()

    assert TEXT == driver.text
    assert driver.clock == pytest.approx(driver.processed_up_to)


@pytest.mark.parametrize("cells", [0.1, 0.4, 0.5, 1.5])
def test_a_word_cut_by_a_pause_is_said_once(driver, cells):
    """A pause inside a word loses, repeats and joins nothing."""
    cut = round((WORDS[3].start + cells * CELL_SECONDS) * 16_000)
    driver.feed(AUDIO[:cut])
    driver.silence(3.0)
    driver.feed(AUDIO[cut:])
    driver.finish()

    assert TEXT == driver.text
    starts = [token.start for token in driver.tokens]
    assert starts == sorted(starts)
    pause = (cut / 16_000, cut / 16_000 + 3.0)
    assert all(t.end <= pause[0] + 1e-9 or t.start >= pause[1] - 1e-9 for t in driver.tokens)


def test_the_hypothesis_is_empty_after_a_flush(driver):
    """What was shown is committed or gone."""
    driver.insert(AUDIO)
    driver.process()
    assert driver.processor.get_buffer().tokens

    driver.start_silence()

    assert "" == driver.processor.get_buffer().text


def test_a_second_finish_commits_nothing_and_runs_no_model(engine, driver):
    """The stream is over after the first."""
    driver.feed(AUDIO)
    driver.finish()
    calls = engine.calls

    assert () == driver.finish().committed
    assert calls == engine.calls


def test_a_stream_without_audio_finishes_without_the_model(engine, driver):
    """No audio, no call."""
    assert ((), 0.0) == tuple(driver.finish())
    assert 0 == engine.calls


def test_calls_after_finish_are_told_so(driver):
    """A finished stream takes neither audio nor silence."""
    driver.finish()

    for call in (
        lambda: driver.insert(AUDIO),
        driver.process,
        driver.start_silence,
        lambda: driver.end_silence(1.0),
        lambda: driver.new_speaker(1),
    ):
        with pytest.raises(StreamClosed):
            call()


def test_reset_gives_a_new_stream(driver):
    """After a reset the same audio gives the same tokens from time zero."""
    driver.feed(AUDIO)
    driver.finish()
    before = driver.tokens
    driver.processor.reset()
    again = StreamDriver(driver.processor)
    again.feed(AUDIO)
    again.finish()

    assert before == again.tokens


def test_speakers_change_where_they_change(driver):
    """Words before the turn keep the old speaker, those from it on have the new one."""
    driver.feed(AUDIO[: 16_000 * 5])
    driver.new_speaker("ann")
    driver.feed(AUDIO[16_000 * 5 : 16_000 * 10])
    driver.silence(1.0)
    driver.new_speaker("bob")
    driver.feed(AUDIO[16_000 * 10 :])
    driver.finish()

    expected = [
        None if token.start < 5.0 else "ann" if token.start < 11.0 else "bob"
        for token in driver.tokens
    ]
    assert expected == [token.speaker for token in driver.tokens]
    assert len(WORDS) == len(driver.tokens)


def test_audio_behind_the_turn_is_kept(driver):
    """A turn told late still divides the words by their times."""
    driver.insert(AUDIO)
    tokens = driver.new_speaker("bob", start=4.0).committed

    assert TEXT == "".join(token.text for token in tokens)
    assert {"bob"} == {token.speaker for token in tokens if token.start >= 4.0}
    assert {None} == {token.speaker for token in tokens if token.start < 4.0}


@pytest.mark.parametrize("call", range(1, 21))
def test_a_fault_loses_nothing(coded_engine, call):
    """A call that fails changes nothing: tried again, the text is that without the fault."""
    engine = coded_engine(fail_at={call})
    driver = StreamDriver(engine.stream())
    faults = 0
    for start in range(0, len(AUDIO), 16_000):
        driver.insert(AUDIO[start : start + 16_000])
        try:
            driver.process()
        except BackendError as error:
            faults += 1
            assert isinstance(error.__cause__, RuntimeError)
    while True:
        try:
            driver.finish()
            break
        except BackendError:
            faults += 1

    assert TEXT == driver.text
    assert (call <= engine.calls) == faults


def test_a_stream_breaks_after_three_failed_retries(coded_engine):
    """Failure is bounded, and every call says so from then on."""
    engine = coded_engine(fail_at=range(1, 100))
    driver = StreamDriver(engine.stream())
    driver.insert(AUDIO)
    for _ in range(3):
        with pytest.raises(BackendError) as failure:
            driver.process()
        assert not isinstance(failure.value, StreamBroken)

    with pytest.raises(StreamBroken):
        driver.process()
    for call in (driver.process, driver.finish, lambda: driver.insert(AUDIO)):
        with pytest.raises(StreamBroken):
            call()
    assert 4 == engine.calls


def test_a_broken_stream_hands_out_what_it_had_committed(coded_engine):
    """Text committed before the failure is never lost."""
    engine = coded_engine(fail_at=range(8, 100))
    driver = StreamDriver(engine.stream())
    driver.insert(AUDIO)
    broken = None
    while broken is None:
        try:
            driver.processor.finish()
        except StreamBroken as error:
            broken = error
        except BackendError:
            continue

    text = "".join(token.text for token in broken.committed)
    assert text
    assert TEXT.startswith(text)


@pytest.mark.parametrize("call", ["process_iter", "start_silence", "finish"])
def test_an_error_after_committed_text_is_raised_by_the_next_call(coded_engine, call):
    """The text of the earlier steps is returned, then the error is raised before any new work."""
    engine = coded_engine(fail_at={4})
    driver = StreamDriver(engine.stream())
    driver.insert(AUDIO)

    assert driver.process().committed
    with pytest.raises(BackendError, match="RuntimeError: call 4 fails") as failure:
        getattr(driver.processor, call)()
    assert isinstance(failure.value.__cause__, RuntimeError)
    assert 4 == engine.calls
    driver.finish()
    assert TEXT == driver.text


def test_an_error_after_committed_text_waits_for_a_call_that_runs_the_engine(coded_engine):
    """Inserting audio and silence succeed; a speaker turn raises the error, then is applied."""
    engine = coded_engine(fail_at={4})
    driver = StreamDriver(engine.stream())
    driver.insert(AUDIO[: 16_000 * 8])
    driver.process()
    driver.insert(AUDIO[16_000 * 8 :])
    driver.end_silence(1.0)

    with pytest.raises(BackendError, match="call 4 fails"):
        driver.new_speaker("ann", start=0.0)
    driver.new_speaker("ann", start=0.0)
    assert TEXT == driver.text


def test_an_error_that_is_raised_later_is_counted_once(coded_engine):
    """The fourth failure of the engine breaks the stream, not the fourth call that raises."""
    engine = coded_engine(fail_at=range(4, 100))
    driver = StreamDriver(engine.stream())
    driver.insert(AUDIO)
    driver.process()
    for calls in (4, 5, 6):
        with pytest.raises(BackendError) as failure:
            driver.process()
        assert not isinstance(failure.value, StreamBroken)
        assert calls == engine.calls

    with pytest.raises(StreamBroken):
        driver.process()
    assert 7 == engine.calls


def test_a_reset_forgets_the_error_of_the_last_call(coded_engine):
    """A new stream does not begin with the failure of the old one."""
    engine = coded_engine(fail_at={4})
    driver = StreamDriver(engine.stream())
    driver.insert(AUDIO)
    driver.process()
    driver.processor.reset()

    assert ((), 0.0) == tuple(driver.processor.process_iter())


class OutOfMemory:
    """A recognizer of which one call, outside the steps, fails the first *times* times."""

    def __init__(self, recognizer, call, times):
        self.recognizer, self.call, self.left = recognizer, call, times

    def __getattr__(self, name):
        """Return the recognizer's attribute, or a failing stand-in for the call."""
        if name != self.call:
            return getattr(self.recognizer, name)
        return self.fail

    def fail(self, *arguments):
        """Fail, or do as the recognizer does."""
        if self.left:
            self.left -= 1
            raise MemoryError("no room")
        return getattr(self.recognizer, self.call)(*arguments)


@pytest.mark.parametrize("call", ["feed", "end_utterance"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_failure_outside_the_steps_is_retried_too(engine, call, times):
    """What a recognizer raises anywhere is a BackendError, and no audio or word is lost."""
    stream = OnlineStream(lambda: OutOfMemory(LocalAgreementRecognizer(engine.transcribe), call, 0))
    driver = StreamDriver(stream)
    driver.feed(AUDIO[:150_000])
    stream._recognizer.left = times
    driver.insert(AUDIO[150_000:])
    for _ in range(times):
        with pytest.raises(BackendError, match="MemoryError: no room"):
            driver.start_silence()
    driver.silence(1.0)
    driver.feed(AUDIO)
    driver.finish()

    assert f"{TEXT} {TEXT}" == driver.text


@pytest.mark.parametrize("call", ["feed", "end_utterance"])
def test_failures_outside_the_steps_are_bounded(engine, call):
    """Four failures in a row break the stream, although the steps between them succeed."""
    stream = OnlineStream(
        lambda: OutOfMemory(LocalAgreementRecognizer(engine.transcribe), call, 100)
    )
    driver = StreamDriver(stream)
    driver.insert(AUDIO)
    for _ in range(3):
        with pytest.raises(BackendError) as failure:
            driver.start_silence()
        assert not isinstance(failure.value, StreamBroken)

    with pytest.raises(StreamBroken):
        driver.start_silence()


def test_a_reset_that_fails_changes_nothing(engine):
    """A recognizer that cannot be made leaves the stream with the one it has."""
    recognizers = iter([LocalAgreementRecognizer(engine.transcribe)])
    driver = StreamDriver(OnlineStream(lambda: next(recognizers)))
    driver.feed(AUDIO[: 16_000 * 5])

    with pytest.raises(StopIteration):
        driver.processor.reset()
    driver.feed(AUDIO[16_000 * 5 :])
    driver.finish()
    assert TEXT == driver.text


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 100_000), st.booleans()), max_size=8))
def test_a_stream_without_backlog_has_nothing_to_decode(coded_engine, inserts):
    """While there is a backlog a call makes progress; without one a call changes nothing."""
    engine = coded_engine()
    stream = engine.stream()
    for samples, has_silence in inserts:
        stream.insert_audio_chunk(AUDIO[:samples])
        if has_silence:
            stream.end_silence(0.5)
        calls = 0
        while stream.has_backlog:
            stream.process_iter()
            calls += 1
        assert calls <= samples / 64_000 + 2
        before = engine.calls, stream.get_buffer()
        emission = stream.process_iter()
        assert () == emission.committed
        assert before == (engine.calls, stream.get_buffer())

    stream.insert_audio_chunk(AUDIO)
    assert stream.has_backlog
    stream.finish()
    assert not stream.has_backlog


def test_a_failed_step_is_backlog(coded_engine):
    """A caller who drains a stream meets the error of a step that failed."""
    stream = coded_engine(fail_at={4}).stream()
    stream.insert_audio_chunk(AUDIO[: 16_000 * 4])
    stream.process_iter()

    assert stream.has_backlog
    with pytest.raises(BackendError, match="call 4 fails"):
        stream.process_iter()
    assert stream.has_backlog
    stream.process_iter()
    assert not stream.has_backlog


def test_overlapping_calls_are_refused_and_close_waits_its_turn(coded_engine):
    """While one call runs another raises ConcurrentCallError; close takes effect after the step."""
    entered, release = threading.Event(), threading.Event()

    def block():
        entered.set()
        assert release.wait(10)

    stream = coded_engine(before_call=block).stream()
    stream.insert_audio_chunk(AUDIO)
    results = []
    thread = threading.Thread(target=lambda: results.append(stream.process_iter()))
    thread.start()
    assert entered.wait(10)

    for call in (stream.process_iter, stream.start_silence, stream.finish, stream.reset):
        with pytest.raises(ConcurrentCallError):
            call()
    stream.insert_audio_chunk(AUDIO)  # never waits
    assert "" == stream.get_buffer().text
    assert stream.stats.audio_seconds > 0
    stream.close()
    release.set()
    thread.join(10)

    assert 1 == len(results)
    with pytest.raises(StreamClosed):
        stream.process_iter()
    stream.close()


def test_a_long_looped_stream_keeps_its_state_bounded(driver):
    """State and work per minute do not grow with the length of the stream."""
    loop = np.concatenate((AUDIO, silence(1.0)))
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


def test_stats_after_finish_still_tell_the_state(driver):
    """The counters are there until the stream is closed."""
    driver.feed(AUDIO)
    driver.finish()
    assert driver.processor.stats.state_bytes > 0

    driver.processor.close()

    assert 0 == driver.processor.stats.state_bytes


def test_pieces_of_words_are_not_torn_apart(coded_engine):
    """Tokens carry their own spacing; a space is put only where two runs meet and want one."""
    engine = coded_engine(("trans", "crip", "tion", ",", " un", "believ", "able"))
    audio = encode([CodedToken(1 + i, 3 * i, 3) for i in range(7)])
    driver = StreamDriver(engine.stream())
    driver.feed(audio, chunk_seconds=0.24)
    driver.silence(1.0)
    driver.feed(audio, chunk_seconds=0.24)
    driver.finish()

    assert driver.text == "transcription, unbelievable transcription, unbelievable"


def test_scripts_without_spaces_get_none(coded_engine):
    """Across a pause the script's own join is used."""
    engine = coded_engine(("你好", "世界"))
    audio = encode([CodedToken(1, 0, 3), CodedToken(2, 4, 3)])
    driver = StreamDriver(engine.stream())
    driver.feed(audio)
    driver.silence(1.0)
    driver.feed(audio)
    driver.finish()

    assert driver.text == "你好世界你好世界"
