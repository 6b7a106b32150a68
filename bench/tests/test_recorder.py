"""Recording a stream on its clock, and writing and reading its log."""

from __future__ import annotations

import json

import attrs
import numpy as np
import pytest

from wlk_bench.errors import LogError
from wlk_bench.events import (
    SCHEMA,
    AudioIn,
    Call,
    Commit,
    End,
    EventLog,
    Header,
    read_log,
    write_log,
)
from wlk_bench.metrics.emitted import committed_words, transcript
from wlk_bench.recorder import Clock, Pause, record_stream
from wlk_bench.reference import Reference
from wlk_bench.selftest import small_log
from wlk_conformance.scripted import ScriptedBackend
from wlk_core.errors import BackendError

from .conftest import coded_sample


class Stopwatch:
    """A clock that each reading advances by a step, and sleeping by its duration."""

    def __init__(self, step=0.1):
        self.time = 0.0
        self.step = step

    def read(self):
        """Advance by a step and return the time."""
        self.time += self.step
        return self.time

    def sleep(self, seconds):
        """Advance the clock."""
        self.time += seconds


def recorded(audio, *, backend=None, **options):
    """Return the log of a stream of the scripted backend."""
    processor = (backend or ScriptedBackend()).create_processor(language="en")
    return log_of(record_stream(processor, audio, **options))


def log_of(recording):
    """Return the events of a recording as a log."""
    events = tuple(recording)
    seconds = events[-1].audio_time
    header = Header(audio="x", audio_seconds=seconds, reference=Reference(text=""))
    return EventLog(header=header, events=events)


def test_a_stream_is_recorded_to_its_end():
    """The whole text is committed, and the work of the calls adds up to the counters."""
    sample = coded_sample("one")

    processor = ScriptedBackend().create_processor(language="en")
    log = log_of(record_stream(processor, sample.audio()))

    assert transcript(log).strip() == sample.reference.text
    forwards = sum(call.work.decoder_forwards for call in log.of(Call))
    assert processor.stats.decoder_forwards == forwards
    assert isinstance(log.events[-1], End)
    assert log.events[-1].audio_time == pytest.approx(sample.seconds)


@pytest.mark.parametrize(("chunk_seconds", "ends"), [(1.0, [1.0, 2.0, 2.5]), (None, [2.5])])
def test_chunks_keep_their_schedule(chunk_seconds, ends):
    """A chunk comes when its audio ends, however the audio was cut; None makes it one chunk."""
    pieces = np.array_split(np.zeros(40_000, dtype=np.float32), 7)

    log = recorded(pieces, chunk_seconds=chunk_seconds, clock=Clock(timer=lambda: 0.0))

    assert [(e.audio_time, e.wall) for e in log.of(AudioIn)] == [(end, end) for end in ends]


def test_work_that_takes_long_makes_the_next_chunk_wait():
    """On the simulated clock a chunk comes after the work on the chunks before it."""
    watch = Stopwatch(step=1.6)  # one call drains a chunk and takes 1.6 s

    log = recorded([np.zeros(32_000, dtype=np.float32)], clock=Clock(timer=watch.read))

    first, second = log.of(AudioIn)
    assert (first.audio_time, first.wall) == (1.0, 1.0)
    assert second.audio_time == 2.0
    assert second.wall == pytest.approx(1.0 + 1.6)


def test_pacing_changes_nothing_but_the_clock():
    """Chunks come as they would be spoken; the text and its audio times stay the same."""
    sample = coded_sample("one", 8)
    watch = Stopwatch(step=0.0)

    free = recorded(sample.audio())
    clock = Clock(is_paced=True, timer=watch.read, sleep=watch.sleep)
    paced = recorded(sample.audio(), clock=clock)

    texts = [[(c.audio_time, c.tokens) for c in log.of(Commit)] for log in (free, paced)]
    assert texts[0] == texts[1]
    assert all(event.wall == pytest.approx(event.audio_time) for event in paced.of(AudioIn))
    assert watch.time == pytest.approx(sample.seconds)


def test_a_pause_is_reported_and_moves_the_clock():
    """A pause is a flush, and the times of words after it include the pause."""
    sample = coded_sample("one", 3)

    log = recorded([*sample.audio(), Pause(10.0), *sample.audio()])

    words = committed_words(log)
    assert [call.kind for call in log.of(Call) if call.kind != "process_iter"] == [
        "start_silence",
        "finish",
    ]
    assert len(words) == 6
    assert words[3].start - words[0].start == pytest.approx(sample.seconds + 10.0)
    assert log.events[-1].audio_time == pytest.approx(2 * sample.seconds + 10.0)


def test_a_failed_call_is_recorded_and_repeated():
    """A temporary fault costs time, but no text."""
    sample = coded_sample("one")

    log = recorded(sample.audio(), backend=ScriptedBackend(fail_before=[2]))

    assert [call.is_failed for call in log.of(Call) if call.is_failed] == [True]
    assert transcript(log).strip() == sample.reference.text


def test_a_stream_that_fails_for_good_is_raised():
    """The error of the engine ends the recording."""
    with pytest.raises(BackendError):
        recorded(coded_sample("one").audio(), backend=ScriptedBackend(fail_before=range(1, 99)))


def test_a_log_is_read_as_it_was_written(tmp_path):
    """Header, reference and every event survive the file, whose first line names the schema."""
    log = small_log()
    path = tmp_path / "small.jsonl"

    write_log(path, log)

    assert read_log(path) == log
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    assert SCHEMA == "wlk-bench/1"
    assert first["schema"] == "wlk-bench/1"


def changed(text, line, new):
    """Return *text* with *new* in place of a line; None cuts the text off before that line."""
    lines = text.splitlines()
    return "\n".join(lines[:line] if new is None else [*lines[:line], new, *lines[line + 1 :]])


@pytest.mark.parametrize(
    ("line", "new", "message"),
    [
        (0, '{"schema": "wlk-bench/0"}', "expected schema wlk-bench/1, got 'wlk-bench/0'"),
        (0, '{"schema": "wlk-bench/1"}', "got Object missing required field `audio` in line 1 of"),
        *((0, new, "expected an event log, got .* in line 1 of") for new in (None, "x", "[]")),
        (3, '{"event": "\udcff"}', "(?i)expected an event log, got .*utf-8.* in line 4 of"),
        (0, '{"audio": "x"}', "expected schema wlk-bench/1, got None"),
        (3, '{"event": "dance"}', "expected an event log, got 'dance' in line 4 of"),
        (-1, None, "expected an end event last"),
    ],
)
def test_another_or_damaged_file_is_refused(tmp_path, line, new, message):
    """The message names the line; an incomplete stream is never scored like a complete one."""
    path = tmp_path / "damaged.jsonl"
    write_log(path, small_log())
    path.write_bytes(changed(path.read_text("utf-8"), line, new).encode(errors="surrogateescape"))

    with pytest.raises(LogError, match=message):
        read_log(path)


def test_a_failed_write_leaves_no_log(tmp_path):
    """A file with the name of a log is always complete."""
    broken = attrs.evolve(small_log(), events=(End(audio_time=object(), wall=0.0),))

    with pytest.raises(TypeError):
        write_log(tmp_path / "log.jsonl", broken)

    assert not (tmp_path / "log.jsonl").exists()
