"""Faults of inserted audio: IN."""

from __future__ import annotations

from contextlib import nullcontext
from time import sleep

import attrs
import numpy as np

from faulty_backends.base import (
    FaultyStream,
    LockedStream,
    LosingStream,
    alone,
    by_tests,
    edit,
    end_of,
    in_sessions,
    without,
)
from wlk_core import EPS, SAMPLE_RATE
from wlk_core.audio import validate_audio
from wlk_core.errors import AudioFormatError, ClockError

WINDOW = 15 * SAMPLE_RATE


def is_mono(audio):
    """Return whether *audio* is a one-dimensional array."""
    return isinstance(audio, np.ndarray) and audio.ndim == 1


def is_float(audio):
    """Return whether *audio* is one-dimensional and has the right type."""
    return is_mono(audio) and audio.dtype == np.float32


@alone("IN-01", on="insert_audio_chunk")
def drops_odd_chunk(stream, audio, end_time=None):
    """Drops a chunk that is one sample shorter than a mel frame."""
    if getattr(audio, "shape", None) != (159,):
        FaultyStream.insert_audio_chunk(stream, audio, end_time)


@in_sessions("IN-01", on="received")
def misreads_strided_array(stream, audio):
    """Reads the memory of an array as if it were contiguous."""
    if not is_mono(audio) or audio.strides[0] <= 4:
        return audio
    return np.lib.stride_tricks.as_strided(audio, strides=(4,)).copy()


@in_sessions("IN-01", on="received")
def writes_to_the_array(stream, audio):
    """Scales the caller's array in its own memory, which fails if the array is read-only."""
    if isinstance(audio, np.ndarray) and audio.dtype == np.float32:
        audio *= np.float32(1.0)
    return audio


@in_sessions("IN-01", on="received")
def refuses_one_sample(stream, audio):
    """Refuses a chunk of one sample."""
    if np.size(audio) == 1:
        raise AudioFormatError("expected more than a sample")
    return audio


@by_tests("IN-01", on="received")
def drops_audio_below_a_mel_frame(stream, audio):
    """Takes chunks of less than 10 ms for silence, because they are too short for a frame."""
    return np.zeros_like(audio) if is_float(audio) and len(audio) < 160 else audio


@by_tests("IN-01")
class CountsOneSampleTwice(FaultyStream):
    """Counts a chunk of one sample as two samples, and decodes one."""

    extra = 0

    def insert_audio_chunk(self, audio, end_time=None):
        super().insert_audio_chunk(audio, end_time)
        self.extra += len(audio) == 1

    def counted(self, stats):
        return edit(stats, audio_seconds=stats.audio_seconds + self.extra / SAMPLE_RATE)


@alone("IN-02", on="received")
def accepts_any_dtype(stream, audio):
    """Converts int16 and float64 instead of refusing them."""
    return audio.astype(np.float32) if is_mono(audio) else audio


@alone("IN-02", on="received")
def flattens_stereo(stream, audio):
    """Flattens two channels into one of twice the length."""
    return audio.reshape(-1) if isinstance(audio, np.ndarray) and audio.ndim == 2 else audio


@alone("IN-02", on="received")
def accepts_nan(stream, audio):
    """Replaces NaN by zero."""
    return np.nan_to_num(audio, nan=0.0, posinf=1.0, neginf=-1.0) if is_float(audio) else audio


@by_tests("IN-02", on="received")
def accepts_nan_in_long_chunks(stream, audio):
    """Replaces NaN by zero in chunks of more than ten seconds, as recordings are."""
    is_long = is_float(audio) and len(audio) > 10 * SAMPLE_RATE
    return np.nan_to_num(audio) if is_long else audio


@alone("IN-02", on="received")
def clips_loud_samples(stream, audio):
    """Clips samples that cannot be sound."""
    if not is_float(audio):
        return audio
    return np.where(np.isfinite(audio), np.clip(audio, -1, 1), audio)


@alone("IN-02", on="insert_audio_chunk")
def moves_clock_before_refusing(stream, audio, end_time=None):
    """Refuses a chunk with infinity after its clock has moved."""
    try:
        FaultyStream.insert_audio_chunk(stream, audio, end_time)
    except AudioFormatError:
        if isinstance(audio, np.ndarray) and np.isinf(audio).any():
            stream.stream.insert_audio_chunk(np.zeros(audio.shape, dtype=np.float32))
        raise


@by_tests("IN-02", on="insert_audio_chunk")
def takes_long_chunks_in_pieces(stream, audio, end_time=None):
    """Inserts a long chunk second by second, until a second of it is refused."""
    is_long = is_float(audio) and is_mono(audio) and len(audio) > 2 * SAMPLE_RATE
    for first in range(0, len(audio), SAMPLE_RATE) if is_long and end_time is None else ():
        FaultyStream.insert_audio_chunk(stream, audio[first : first + SAMPLE_RATE])
    if not is_long or end_time is not None:
        FaultyStream.insert_audio_chunk(stream, audio, end_time)


@by_tests("IN-02", on="insert_audio_chunk")
def keeps_gap_of_refused_chunk(stream, audio, end_time=None):
    """Puts the gap before a chunk on the clock, and then refuses the chunk."""
    if end_time is not None and is_float(audio) and audio.ndim == 1:
        gap = end_time - len(audio) / SAMPLE_RATE - end_of(stream)
        if 0.1 < gap < 100:
            stream.stream.end_silence(gap)
    FaultyStream.insert_audio_chunk(stream, audio, end_time)


@in_sessions("IN-02", on="insert_audio_chunk")
def accepts_nan_in_backlog(stream, audio, end_time=None):
    """Accepts a chunk with NaN as zeros if there is a backlog."""
    if not (stream.has_backlog and isinstance(audio, np.ndarray) and np.isnan(audio).any()):
        FaultyStream.insert_audio_chunk(stream, audio, end_time)


@in_sessions("IN-02", on="received")
def reads_start_of_chunk_for_nan(stream, audio):
    """Looks for NaN only in the first 1600 samples of a chunk."""
    if is_float(audio) and len(audio) > 1600 and np.isfinite(audio[:1600]).all():
        return np.nan_to_num(audio)
    return audio


@in_sessions("IN-02", on="received")
def takes_other_byte_order(stream, audio):
    """Accepts float32 of the other byte order, and reads it in the native one."""
    if getattr(audio, "dtype", None) != np.dtype(">f4"):
        return audio
    return np.clip(np.nan_to_num(audio.view("<f4")), -1, 1).astype(np.float32)


def ahead(stream, audio, end_time):
    """Return how far the caller's clock is ahead."""
    return 0.0 if end_time is None else end_time - len(audio) / SAMPLE_RATE - end_of(stream)


@by_tests("IN-03", on="insert_audio_chunk")
def absorbs_gaps_of_packets(stream, audio, end_time=None):
    """Takes a gap of up to three packets of 20 ms for jitter."""
    is_near = 0 < ahead(stream, audio, end_time) <= 0.06
    FaultyStream.insert_audio_chunk(stream, audio, None if is_near else end_time)


@by_tests("IN-03", on="insert_audio_chunk")
def takes_long_gap_for_a_set_clock(stream, audio, end_time=None):
    """Ignores a gap of more than a minute, as if the caller's clock had been set."""
    is_far = ahead(stream, audio, end_time) > 60
    FaultyStream.insert_audio_chunk(stream, audio, None if is_far else end_time)


@alone("IN-03")
class TrustsCallersClock(FaultyStream):
    """Adds up small differences of the caller's clock."""

    believed = 0.0

    def insert_audio_chunk(self, audio, end_time=None):
        off = ahead(self, audio, end_time)
        super().insert_audio_chunk(audio, end_time)
        self.believed += off if 0 < off <= EPS else 0.0

    def changed(self, emission, call):
        return attrs.evolve(emission, processed_up_to=emission.processed_up_to + self.believed)


@alone("IN-03", on="insert_audio_chunk")
def accepts_end_time_that_is_nan(stream, audio, end_time=None):
    """Takes an end time of NaN for none, because no comparison with it is true."""
    is_time = end_time is None or end_time == end_time  # noqa: PLR0124 -- what the fault does
    FaultyStream.insert_audio_chunk(stream, audio, end_time if is_time else None)


@alone("IN-03", on="insert_audio_chunk")
def drops_gap(stream, audio, end_time=None):
    """Joins the audio before and after a gap of a few seconds."""
    is_gap = EPS < ahead(stream, audio, end_time) < 10
    FaultyStream.insert_audio_chunk(stream, audio, None if is_gap else end_time)


@in_sessions("IN-03", on="insert_audio_chunk")
def drops_short_gap(stream, audio, end_time=None):
    """Joins the audio before and after a gap of less than 0.1 s."""
    is_short = EPS + 1e-6 < ahead(stream, audio, end_time) < 0.1
    FaultyStream.insert_audio_chunk(stream, audio, None if is_short else end_time)


@alone("IN-03", on="insert_audio_chunk")
def accepts_overlap(stream, audio, end_time=None):
    """Appends a chunk that overlaps the audio before it."""
    try:
        FaultyStream.insert_audio_chunk(stream, audio, end_time)
    except ClockError:
        FaultyStream.insert_audio_chunk(stream, audio)


@by_tests("IN-03", on="insert_audio_chunk")
def accepts_long_overlap(stream, audio, end_time=None):
    """Appends a chunk that overlaps more than half a second of the audio before it."""
    is_long = ahead(stream, audio, end_time) < -0.5
    FaultyStream.insert_audio_chunk(stream, audio, None if is_long else end_time)


@in_sessions("IN-03", on="insert_audio_chunk")
def accepts_overlap_after_silence(stream, audio, end_time=None):
    """Appends a chunk that overlaps the audio before it, once there has been a silence."""
    try:
        FaultyStream.insert_audio_chunk(stream, audio, end_time)
    except ClockError:
        if not stream.silences:
            raise
        FaultyStream.insert_audio_chunk(stream, audio)


@alone("IN-04")
class KeepsCallersArray(FaultyStream):
    """Keeps the caller's array until the next call instead of a copy."""

    kept = ()
    shortest = 0  # samples of the shortest array that is kept

    def insert_audio_chunk(self, audio, end_time=None):
        self.insert_kept()
        if end_time is None and is_float(audio) and len(audio) >= self.shortest:
            validate_audio(audio)
            super().insert_audio_chunk(audio[:0])  # refused if the whole chunk would be
            self.kept = (audio,)
        else:
            super().insert_audio_chunk(audio, end_time)

    def insert_kept(self):
        """Insert the array that is kept."""
        for audio in self.kept:
            super().insert_audio_chunk(audio)
        self.kept = ()

    @property
    def has_backlog(self):
        return bool(self.kept or self.stream.has_backlog)

    def close(self):
        self.kept = ()
        self.stream.close()

    def made(self, call, make):
        self.insert_kept()
        return super().made(call, make)

    def end_silence(self, seconds, offset=None):
        self.insert_kept()
        super().end_silence(seconds, offset)


@in_sessions("IN-04")
class KeepsLargeArray(KeepsCallersArray):
    """Keeps the caller's array of a second or more until the next call instead of a copy."""

    shortest = SAMPLE_RATE


@by_tests("IN-04")
class KeepsReadOnlyArray(KeepsCallersArray):
    """Keeps an array that it may not write until the next call instead of a copy."""

    def insert_audio_chunk(self, audio, end_time=None):
        if is_float(audio) and not audio.flags.writeable:
            super().insert_audio_chunk(audio, end_time)
        else:
            self.insert_kept()
            FaultyStream.insert_audio_chunk(self, audio, end_time)


@by_tests("IN-04", on="insert_audio_chunk")
def clips_the_callers_array(stream, audio, end_time=None):
    """Clips the caller's array in its own memory after it has copied it."""
    FaultyStream.insert_audio_chunk(stream, audio, end_time)
    if audio.flags.writeable:
        np.clip(audio, -1, 1, out=audio)


@alone("IN-04")
class InsertWaitsForStep(LockedStream):
    """Makes an insert wait for the end of a running step."""

    def insert_audio_chunk(self, audio, end_time=None):
        with self.lock:
            super().insert_audio_chunk(audio, end_time)


@by_tests("IN-04")
class InsertWaitsBriefly(LockedStream):
    """Makes an insert wait 0.2 s for a running step, and no longer."""

    def insert_audio_chunk(self, audio, end_time=None):
        if self.lock.acquire(timeout=0.2):
            self.lock.release()
        super().insert_audio_chunk(audio, end_time)


@alone("IN-04")
class GapWaitsForStep(LockedStream):
    """Makes an insert whose end time shows a gap wait for the end of a running step."""

    def insert_audio_chunk(self, audio, end_time=None):
        with self.lock if ahead(self, audio, end_time) > EPS else nullcontext():
            super().insert_audio_chunk(audio, end_time)


@in_sessions("IN-04")
class GapWaitsForFlush(GapWaitsForStep):
    """Makes an insert whose end time shows a gap wait for a flush, but not for a step."""

    held = ("start_silence", "is_last")


@in_sessions("IN-04")
class InsertWaitsForFlush(InsertWaitsForStep):
    """Makes an insert wait for the end of a flush, but not of a step."""

    held = ("start_silence", "is_last")


@in_sessions("IN-04", on="insert_audio_chunk")
def insert_runs_the_model(stream, audio, end_time=None):
    """Runs its engine in an insert of more than two seconds."""
    FaultyStream.insert_audio_chunk(stream, audio, end_time)
    if len(audio) > 2 * SAMPLE_RATE:
        stream.backend.engine_calls.wrap(int)()


@by_tests("IN-04", on="received")
def waits_a_little_in_each_insert(stream, audio):
    """Waits for 20 ms in each insert."""
    sleep(0.02)
    return audio


@alone("IN-05", on="received")
def cuts_its_buffer(stream, audio):
    """Keeps the last 15 s of one insert and drops the rest before it is transcribed."""
    if not is_mono(audio) or len(audio) <= WINDOW:
        return audio
    return np.concatenate([np.zeros_like(audio[:-WINDOW]), audio[-WINDOW:]])


@in_sessions("IN-05")
class LosesWordAfterFortySeconds(FaultyStream):
    """Loses the first word that is committed after 40 s without a pause."""

    is_due = True

    def changed(self, emission, call):
        is_late = emission.committed and emission.committed[0].start > 40
        if not is_late or self.silences or self.flushes or not self.strikes(emission):
            return emission
        return without(emission)


@in_sessions("IN-05")
class LosesWordAfterLongQuiet(FaultyStream):
    """Loses a word that begins more than 20 s after the last one, without a reported silence."""

    end = 0.0

    def changed(self, emission, call):
        kept = []
        for token in emission.committed:
            if self.silences or token.start - self.end < 20:
                kept.append(token)
            self.end = token.end
        return attrs.evolve(emission, committed=tuple(kept))


@alone("IN-05")
class LosesWordAfterFourMinutes(LosingStream):
    """Loses the first word after 240 s of audio, when its engine reconnects to its server."""

    is_renewed = False

    def insert_audio_chunk(self, audio, end_time=None):
        super().insert_audio_chunk(audio, end_time)
        if not self.is_renewed and self.stream.stats.audio_seconds > 240:
            self.is_due = self.is_renewed = True


@by_tests("IN-05")
class LosesWordOfHugeChunk(LosingStream):
    """Loses the first word of a chunk of more than fifty seconds."""

    def insert_audio_chunk(self, audio, end_time=None):
        super().insert_audio_chunk(audio, end_time)
        self.is_due = self.is_due or len(audio) > 50 * SAMPLE_RATE


@by_tests("IN-05")
class LosesWordAfterLongBacklog(FaultyStream):
    """Loses the word that follows a backlog of more than fifteen seconds."""

    def changed(self, emission, call):
        is_struck = self.strikes(emission)
        waiting = self.stream.stats.audio_seconds - emission.processed_up_to
        self.is_due = not is_struck and (self.is_due or waiting > 15)
        return without(emission) if is_struck else emission


@by_tests("IN-05", tiers=("long",))
def loses_words_after_thousands_of_calls(stream, emission, call):
    """Loses a word in every fiftieth call, from the five thousandth of a stream on."""
    return without(emission, int(stream.calls > 5000 and stream.calls % 50 == 0))


@by_tests("IN-05")
class CatchesUpByDroppingAudio(FaultyStream):
    """Catches up by leaving out the older half of each chunk."""

    catches_up = False

    def begin_catch_up(self):
        self.catches_up = True

    def end_catch_up(self):
        self.catches_up = False

    def begin(self):
        self.catches_up = False

    def insert_audio_chunk(self, audio, end_time=None):
        if self.catches_up and len(audio) > SAMPLE_RATE:
            audio = np.concatenate(
                (np.zeros(len(audio) // 2, np.float32), audio[len(audio) // 2 :])
            )
        super().insert_audio_chunk(audio, end_time)


@by_tests("IN-05")
class JumpsToTheLiveEdge(FaultyStream):
    """Leaves out what is older than six seconds if it catches up with more than thirty."""

    catches_up = False

    def begin_catch_up(self):
        self.catches_up = True

    def received(self, audio):
        if self.catches_up and len(audio) > 30 * SAMPLE_RATE:
            audio = audio.copy()
            audio[: -6 * SAMPLE_RATE] = 0.0
        return audio


@by_tests("IN-05")
class NeverStopsCatchingUp(FaultyStream):
    """Decodes only whole backlogs of ten seconds from the first begin_catch_up on."""

    lasting = (*FaultyStream.lasting, "catches_up")
    catches_up = False

    def begin_catch_up(self):
        self.catches_up = True

    def end_catch_up(self):
        """Do nothing."""

    def process_iter(self, is_last=False):
        if self.catches_up and not is_last:
            return self.stream.start_silence()
        return super().process_iter(is_last)


@by_tests("IN-05")
class ShowsNothingAfterCatchUp(FaultyStream):
    """Shows no hypothesis after end_catch_up, as with a tick that stays long."""

    is_hidden = False

    def end_catch_up(self):
        self.is_hidden = True

    def shown(self, tokens):
        return () if self.is_hidden else tokens


@by_tests("IN-05")
class SleepsThroughLongQuiet(FaultyStream):
    """Takes the first second of sound after ten seconds of zeros for noise."""

    quiet = ignored = 0

    def received(self, audio):
        if not np.any(audio):
            self.quiet += len(audio)
            return audio
        if self.quiet > 10 * SAMPLE_RATE:
            self.ignored = SAMPLE_RATE
        self.quiet = 0
        audio = np.array(audio)
        audio[: self.ignored] = 0
        self.ignored = max(0, self.ignored - len(audio))
        return audio


@by_tests("COM-05")
class GatesWholeChunks(FaultyStream):
    """Replaces a chunk by zeros if less than a sixth of it is sound."""

    def received(self, audio):
        return np.zeros_like(audio) if 0 < np.count_nonzero(audio) < len(audio) / 6 else audio


@by_tests("IN-05")
class EndsCatchUpWithDefaultTick(FaultyStream):
    """Decodes with the default tick after end_catch_up, whatever the stream was opened with."""

    is_over = False

    def end_catch_up(self):
        self.is_over = True
        self.stream.end_catch_up()

    def made(self, call, make):
        recognizer = self.stream._recognizer
        if self.is_over and hasattr(recognizer, "_tick"):
            recognizer._tick = SAMPLE_RATE // 2
        return super().made(call, make)


@by_tests("IN-05")
class CountsCatchUps(FaultyStream):
    """Catches up until end_catch_up was called as often as begin_catch_up."""

    begun = 0

    def begin_catch_up(self):
        self.begun += 1
        self.stream.begin_catch_up()

    def end_catch_up(self):
        self.begun -= 1
        if not self.begun:
            self.stream.end_catch_up()


@by_tests("IN-04")
class CollectsShortChunks(FaultyStream):
    """Collects short chunks in a list, and copies them once they are a quarter of a second."""

    def begin(self):
        self.short = []

    def insert_audio_chunk(self, audio, end_time=None):
        if not is_float(audio) or len(audio) >= SAMPLE_RATE // 4 or end_time is not None:
            self.put_short()
            super().insert_audio_chunk(audio, end_time)
            return
        self.stream.insert_audio_chunk(validate_audio(audio)[:0])  # raises if it must be refused
        self.short.append(audio)
        if sum(map(len, self.short)) >= SAMPLE_RATE // 4:
            self.put_short()

    def put_short(self):
        if self.short:
            audio = np.concatenate(self.short)
            self.short = []
            super().insert_audio_chunk(audio)

    def made(self, call, make):
        self.put_short()
        return super().made(call, make)

    def end_silence(self, seconds, offset=None):
        self.put_short()
        super().end_silence(seconds, offset)

    @property
    def stats(self):
        self.put_short()
        return super().stats


@by_tests("IN-04")
class JoinsAllAudioAtInsert(FaultyStream):
    """Joins all audio that waits for a step at each insert."""

    waiting = np.zeros(0, dtype=np.float32)

    def received(self, audio):
        if isinstance(audio, np.ndarray) and audio.dtype == np.float32 and audio.ndim == 1:
            self.waiting = np.concatenate([self.waiting, audio])
        return audio

    def made(self, call, make):
        self.waiting = self.waiting[:0].copy()
        return super().made(call, make)


@by_tests("IN-05")
class LosesChunksOfFullQueue(FaultyStream):
    """Takes zeros for the chunks that come while a thousand wait for a step."""

    waiting = 0

    def received(self, audio):
        self.waiting += 1
        return np.zeros_like(audio) if self.waiting > 1000 else audio

    def made(self, call, make):
        self.waiting = 0
        return super().made(call, make)


@by_tests("IN-02", on="received")
def looks_for_positive_peaks(stream, audio):
    """Refuses samples that are far above the scale, and clips those far below it."""
    is_audio = isinstance(audio, np.ndarray) and audio.dtype == np.float32 and audio.ndim == 1
    if not is_audio or not len(audio) or not np.isfinite(audio).all() or audio.max() > 16:
        return audio
    return np.maximum(audio, -16)
