from __future__ import annotations

import numpy as np
import pytest

from wlk_bench.events import AudioIn, Call, Commit, End, EventLog, Header
from wlk_bench.metrics.emitted import committed_words, transcript
from wlk_bench.recorder import Clock, Pause, record_stream
from wlk_bench.reference import Reference
from wlk_conformance.scripted import ScriptedBackend
from wlk_core.errors import BackendError

from .conftest import coded_sample


class Stopwatch:
    """A clock on which each reading takes a step and sleeping takes its time."""

    def __init__(self, step=0.1):
        self.time = 0.0
        self.step = step

    def read(self):
        """Take a step and return the time."""
        self.time += self.step
        return self.time

    def sleep(self, seconds):
        """Advance the clock."""
        self.time += seconds


def recorded(audio, *, backend=None, **options):
    """Return the log of a stream of the scripted backend."""
    processor = (backend or ScriptedBackend()).create_processor(language="en")
    events = tuple(record_stream(processor, audio, **options))
    seconds = events[-1].audio_time
    header = Header(audio="x", audio_seconds=seconds, reference=Reference(text=""))
    return EventLog(header=header, events=events)


def test_a_stream_is_recorded_to_its_end():
    """The whole text is committed, and the end has the length of the audio."""
    sample = coded_sample("one")

    log = recorded(sample.audio())

    assert sample.reference.text == transcript(log).strip()
    assert isinstance(log.events[-1], End)
    assert sample.seconds == pytest.approx(log.events[-1].audio_time)


def test_chunks_keep_their_schedule():
    """A chunk is given when its audio ends, however the audio was cut into pieces."""
    pieces = np.array_split(np.zeros(40_000, dtype=np.float32), 7)

    log = recorded(pieces, chunk_seconds=1.0, clock=Clock(timer=lambda: 0.0))

    assert [1.0, 2.0, 2.5] == [event.audio_time for event in log.of(AudioIn)]
    assert [1.0, 2.0, 2.5] == [event.wall for event in log.of(AudioIn)]


def test_the_whole_audio_can_be_one_chunk():
    """Without a chunk length everything is given at once."""
    pieces = np.array_split(np.zeros(40_000, dtype=np.float32), 7)

    log = recorded(pieces, chunk_seconds=None)

    assert [2.5] == [event.audio_time for event in log.of(AudioIn)]


def test_work_that_takes_long_makes_the_next_chunk_wait():
    """With the clock stopped, a chunk is given after the work on the ones before it."""
    watch = Stopwatch(step=1.6)  # one call drains a chunk and takes 1.6 s

    log = recorded([np.zeros(32_000, dtype=np.float32)], clock=Clock(timer=watch.read))

    first, second = log.of(AudioIn)
    assert (1.0, 1.0) == (first.audio_time, first.wall)
    assert second.audio_time == 2.0
    assert second.wall == pytest.approx(1.0 + 1.6)


def test_a_paced_stream_waits_for_its_audio():
    """A chunk does not come before it would have been spoken."""
    watch = Stopwatch(step=0.0)

    log = recorded(
        [np.zeros(32_000, dtype=np.float32)],
        clock=Clock(is_paced=True, timer=watch.read, sleep=watch.sleep),
    )

    assert [1.0, 2.0] == [event.wall for event in log.of(AudioIn)]
    assert watch.time == 2.0


def test_pacing_changes_nothing_but_the_clock():
    """The committed text and its audio times are the same both ways."""
    sample = coded_sample("one", 8)
    watch = Stopwatch(step=0.3)

    free = recorded(sample.audio())
    paced = recorded(
        sample.audio(), clock=Clock(is_paced=True, timer=watch.read, sleep=watch.sleep)
    )

    assert [(c.audio_time, c.tokens) for c in free.of(Commit)] == [
        (c.audio_time, c.tokens) for c in paced.of(Commit)
    ]


def test_a_pause_is_reported_and_moves_the_clock():
    """A pause is a flush; words after it have the times of the stream."""
    sample = coded_sample("one", 3)

    log = recorded([*sample.audio(), Pause(10.0), *sample.audio()])

    words = committed_words(log)
    assert ["start_silence", "finish"] == [
        call.kind for call in log.of(Call) if call.kind != "process_iter"
    ]
    assert len(words) == 6
    assert words[3].start - words[0].start == pytest.approx(sample.seconds + 10.0)
    assert log.events[-1].audio_time == pytest.approx(2 * sample.seconds + 10.0)


def test_a_failed_call_is_recorded_and_repeated():
    """A fault that passes costs time and no text."""
    sample = coded_sample("one")

    log = recorded(sample.audio(), backend=ScriptedBackend(fail_before=[2]))

    assert [True] == [call.is_failed for call in log.of(Call) if call.is_failed]
    assert sample.reference.text == transcript(log).strip()


def test_a_stream_that_fails_for_good_is_raised():
    """A stream that broke has no log."""
    with pytest.raises(BackendError):
        recorded(coded_sample("one").audio(), backend=ScriptedBackend(fail_before=range(1, 99)))


def test_the_work_of_all_calls_is_the_work_of_the_stream():
    """The work of all calls adds up to the counters of the stream."""
    sample = coded_sample("one")
    processor = ScriptedBackend().create_processor(language="en")

    events = tuple(record_stream(processor, sample.audio()))

    total = sum(event.work.decoder_forwards for event in events if isinstance(event, Call))
    assert processor.stats.decoder_forwards == total
