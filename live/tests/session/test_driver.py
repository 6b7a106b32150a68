"""Sessions on one source: audio in any pieces, sources that fail, and consumers that are slow."""

from __future__ import annotations

import asyncio
from itertools import repeat

import numpy as np
import pytest
from session_events import BackendOf, kinds, text_of, tokens_of

from wlk_core import AudioFormatError
from wlk_live import AudioDeviceError
from wlk_live.session import Endpoint, Session, astream, stream
from wlk_live.session.driver import Driver, reading


def run_feed(processor, pieces):
    """Feed each piece to a session."""
    session = Session(processor, encoding="f32le")
    return [event for piece in pieces for event in session.feed(piece)] + session.finish()


def run_driver(processor, pieces):
    """Run a session on a source of pieces; raise why it failed, after its events."""
    driver = Driver(Session(processor, encoding="f32le"), reading(pieces))
    events = [event for step in driver.run() for event in step]
    return events if driver.failure is None else _raised(events, driver.failure)


def run_stream(processor, pieces):
    """Return the events of stream; a failure carries them."""
    events = []
    try:
        for event in stream(BackendOf(processor), pieces, vad=False):
            events.append(event)  # noqa: PERF402 -- kept although the iteration fails
    except Exception as error:  # noqa: BLE001 -- raised again
        _raised(events, error)
    return events


def run_astream(processor, pieces):
    """Return the events of astream; a failure carries them."""

    async def live():
        for piece in pieces:
            await asyncio.sleep(0)
            yield piece

    async def collect():
        async for event in astream(BackendOf(processor), live(), vad=False):
            events.append(event)  # noqa: PERF401 -- as above

    events = []
    try:
        asyncio.run(collect())
    except Exception as error:  # noqa: BLE001 -- as above
        _raised(events, error)
    return events


def _raised(events, error):
    error.events = events
    raise error


arrays = pytest.mark.parametrize(
    "run", [run_driver, run_stream, run_astream], ids=["driver", "stream", "astream"]
)


@pytest.mark.parametrize("run", [run_feed, run_driver], ids=["feed", "driver"])
@pytest.mark.parametrize("size", [1, 3, 4_097])
def test_bytes_of_any_length_give_the_same_words(run, size, open_coded, speech):
    """Pieces of one byte, or of odd lengths, lose and double no sample."""
    data = speech.tobytes()
    cut = range(64_001, 64_001 + 1_000 * size, size)
    pieces = [data[: cut[0]], *(data[start : start + size] for start in cut), data[cut.stop :]]
    pieces = [piece for piece in pieces if piece]
    events = run(open_coded(), pieces)

    assert b"".join(pieces) == data
    assert tokens_of(events) == tokens_of(run(open_coded(), [speech]))
    assert events[-1].audio_time == len(speech) / 16_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    [run_feed, run_driver, run_stream, run_astream],
    ids=["feed", "driver", "stream", "astream"],
)
def test_ten_thousand_tiny_chunks_give_the_same_words(run, open_coded, speech, words):
    """Their number costs no word."""
    events = run(open_coded(), np.array_split(speech, 10_000))

    assert text_of(events) == "".join(word.text for word in words).strip()
    assert events[-1].audio_time == len(speech) / 16_000


@arrays
@pytest.mark.parametrize(
    "failure",
    [AudioFormatError("damaged"), OSError("the writer died"), AudioDeviceError("unplugged")],
    ids=repr,
)
def test_a_source_that_fails_gives_every_word_before_it_and_then_its_error(
    run, failure, open_coded, speech, words
):
    """Every driver transcribes what came, and reports the same error."""

    def failing():
        yield from np.array_split(speech, 7)
        raise failure

    with pytest.raises(type(failure)) as caught:
        run(open_coded(), failing())

    assert caught.value is failure
    assert len(tokens_of(failure.events)) == len(words)
    assert failure.events[-1].audio_time == len(speech) / 16_000


@pytest.mark.parametrize("run", [run_stream, run_astream], ids=["stream", "astream"])
@pytest.mark.parametrize(
    "piece",
    [np.array([0.1, np.nan], np.float32), np.zeros((2, 100), np.float32), np.zeros(4, np.int16)],
    ids=["nan", "stereo", "int16"],
)
def test_a_bad_chunk_is_refused_after_the_words_before_it(run, piece, open_coded, speech, words):
    """The audio before it is transcribed to its end."""
    with pytest.raises(AudioFormatError, match="expected") as caught:
        run(open_coded(), [speech, piece, speech])

    assert len(tokens_of(caught.value.events)) == len(words)


def test_an_error_that_is_no_failure_of_a_source_is_raised_at_once(open_coded, speech):
    """A defect of a caller's generator is not an end of the audio."""

    def defective():
        yield speech
        raise ZeroDivisionError

    driver = Driver(Session(open_coded()), reading(defective()))
    with pytest.raises(ZeroDivisionError):
        list(driver.run())

    assert driver.failure is None
    assert not driver.session.is_over


def test_a_slow_consumer_holds_back_the_source(open_coded, speech):
    """A recording is read only when its session has nothing to do, so nothing piles up."""
    read = 0

    def counted():
        nonlocal read
        for piece in np.array_split(speech, 10):
            read += 1
            yield piece

    driver = Driver(Session(open_coded()), reading(counted()))
    session, ahead, events = driver.session, [], []
    for step in driver.run():
        events += step
        ahead.append(session.backlog_seconds)

    assert read == 10
    assert max(ahead) <= 1.0
    assert tokens_of(events) == tokens_of(run_feed(open_coded(), [speech]))


def test_a_live_source_is_read_although_the_session_has_work(open_coded, speech):
    """What a microphone captured meanwhile counts as waiting, so that a lag can be seen."""
    captured = [list(np.array_split(speech, 8)), []]

    def read(seconds):
        waits.append(seconds)
        return captured.pop(0) if captured else None

    waits = []
    driver = Driver(Session(open_coded()), read)
    events = driver.step()

    assert waits == [0.1, 0.0]
    assert driver.session.backlog_seconds > 8.0
    assert tokens_of(events + [e for step in driver.run() for e in step])[-1].end < 10.1


def test_the_owner_of_a_driver_can_end_the_audio(open_coded, speech, words):
    """After Ctrl-C nothing more is read, and the last words still come."""
    driver = Driver(Session(open_coded()), reading(repeat(speech)))
    events = driver.step()
    driver.end()
    events += [event for step in driver.run() for event in step]

    assert len(tokens_of(events)) == len(words)
    assert driver.failure is None


def test_half_a_sample_is_dropped_when_the_format_changes(open_session, open_coded, speech):
    """Arrays after odd bytes, and bytes after them, begin with whole samples."""
    session, data = open_session(gated=False), speech.tobytes()
    events = session.feed(data[: 4 * 16_000 + 3])
    events += session.feed(speech[16_000:32_000])
    events += session.feed(data[4 * 32_000 :]) + session.finish()

    assert tokens_of(events) == tokens_of(run_feed(open_coded(), [speech]))


def test_half_a_sample_ends_with_its_session(open_session, speech, words):
    """The end of the audio in the middle of a sample loses no word."""
    session = open_session(gated=False)
    events = session.feed(speech.tobytes() + b"\x00\x01\x02") + session.finish()

    assert len(tokens_of(events)) == len(words)
    assert events[-1].audio_time == len(speech) / 16_000
    assert [endpoint.reason for endpoint in kinds(events, Endpoint)] == ["end"]
